"""SSH as the user's own ssh would do it: configuration, keys, host keys, and thousands of connections."""
