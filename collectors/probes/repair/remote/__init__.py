"""The halves of the repairs that run on a node; Python 3.8, standard library."""
