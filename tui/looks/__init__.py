"""Formats of text and numbers, colours, glyphs."""
