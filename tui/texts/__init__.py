"""Stacks, collectives, verdict and report as lines of text."""
