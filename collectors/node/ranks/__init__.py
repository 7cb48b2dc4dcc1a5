"""Finds the ranks among a node's processes, and samples them."""
