"""Stacks: what frames mean, what a rank is doing, and one merged picture of many ranks."""
