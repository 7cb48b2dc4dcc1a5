"""Connections from this machine to the nodes: one link per node, its states, and the decoding of its stream."""
