"""One session: feeds samples into the job's state, asks the diagnosis, runs probes, records, replays."""
