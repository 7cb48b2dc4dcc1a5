"""What runs on the node: standard library alone, Python 3.8."""
