"""Whether a job moves, from counters that nodes send anyway."""
