"""Recordings, and the past of a session that runs, kept in a file without a name on this machine."""
