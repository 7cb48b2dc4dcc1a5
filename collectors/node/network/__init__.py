"""Adapters, ports and connections: InfiniBand, RoCE, Ethernet and TCP, and the path to other nodes."""
