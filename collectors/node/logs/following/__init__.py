"""Which log files a node's ranks write, and following them as they grow."""
