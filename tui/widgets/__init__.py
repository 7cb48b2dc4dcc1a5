"""Widgets that draw their own lines once a tick, straight from the state."""
