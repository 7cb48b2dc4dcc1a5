"""Connections from this machine to the nodes: one link a node, its states, and the decoding of its stream."""
