"""Findings, stacks and the report as lines of text."""
