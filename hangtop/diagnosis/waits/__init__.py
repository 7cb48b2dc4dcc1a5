"""Which rank waits for which: the status of each rank, the wait graph, and the evidence."""
