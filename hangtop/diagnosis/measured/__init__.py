"""What probes measured between nodes, and what that means."""
