"""The path probe: connect, round trip, MTU, throughput and loss between nodes, with plain sockets."""
