"""What probes and repairs run on the nodes, a file each: Python 3.8, standard library (and the job's torch)."""
