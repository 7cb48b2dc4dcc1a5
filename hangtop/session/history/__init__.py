"""What a job did up to seven days back, as numbers: thinned as it grows old, bounded whatever the job does."""
