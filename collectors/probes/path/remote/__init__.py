"""Questions of the path probe that need a node's own view or its tools; Python 3.8, standard library."""
