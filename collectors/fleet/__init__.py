"""Runs here: one connection per node, its state machine, and the decoding of what comes in."""
