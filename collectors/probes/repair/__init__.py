"""What people mend at night: orphans of an earlier run, stopped ranks, a port that is taken."""
