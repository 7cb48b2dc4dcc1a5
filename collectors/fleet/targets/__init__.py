"""Which nodes to connect to: from words of the command line, hostfiles and Slurm jobs."""
