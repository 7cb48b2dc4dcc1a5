"""Programs of probes and repairs on the nodes, one file each: Python 3.8, standard library (and the job's torch)."""
