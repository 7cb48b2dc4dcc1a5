"""Widgets that draw their own lines, straight from the state, once a tick."""
