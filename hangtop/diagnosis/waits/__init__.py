"""Who waits for whom: what each rank does, the graph of waits, and what tells it."""
