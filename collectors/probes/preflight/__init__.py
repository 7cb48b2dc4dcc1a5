"""Preflight's questions to the nodes: what each says of itself, and whether they reach one another."""
