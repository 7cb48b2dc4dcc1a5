"""Rows: their collection, filter and order."""
