"""Packet capture: tcpdump on the nodes, its bytes brought here, nothing on the nodes' disks."""
