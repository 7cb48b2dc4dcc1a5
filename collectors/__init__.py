"""What touches a node: the node side, the fleet of connections, and the probes."""
