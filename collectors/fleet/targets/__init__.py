"""Which nodes are meant: words of the command line, hostfiles, Slurm jobs, pods, and where they hang."""
