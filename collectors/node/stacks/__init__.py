"""Stacks of processes: py-spy and what stands in for it where it may not look."""
