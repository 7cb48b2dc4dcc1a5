"""Whether a job moves, from signs that cost nothing."""
