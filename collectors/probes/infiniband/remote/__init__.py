"""The half of the InfiniBand probe that runs on a node; Python 3.8, standard library."""
