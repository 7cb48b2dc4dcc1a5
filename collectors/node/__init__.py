"""Runs on the node: standard library and :mod:`collectors.samples` only, Python 3.8 or newer."""
