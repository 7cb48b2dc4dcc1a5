"""Nodes × checks, before a job or beside one: what would stop it, and the command that mends it."""
