"""Log lines and events of many ranks in one list."""
