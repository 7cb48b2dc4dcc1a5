"""The past of a session that runs, kept in a file without a name on this machine, and any moment of it made anew."""
