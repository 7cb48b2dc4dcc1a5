"""Asks ranks that share a page for a check at the end of a step."""
