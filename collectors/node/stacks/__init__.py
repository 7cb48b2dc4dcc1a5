"""Stacks of processes: py-spy, and what replaces it where it has no rights."""
