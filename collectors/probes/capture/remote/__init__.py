"""The half of the capture that runs on a node; Python 3.8, standard library."""
