"""Logs: followed on the node, and read into typed events by one incremental parser (used here and by ``analyze``)."""
