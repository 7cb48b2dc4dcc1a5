"""Runs on the nodes."""
