"""One line: what stands in front of it, whose it is, when it was written, what it counts."""
