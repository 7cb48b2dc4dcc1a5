"""What would stop a job on nodes, checked before it starts."""
