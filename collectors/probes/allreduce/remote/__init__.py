"""Runs on the nodes, under the interpreter of the job: Python 3.8 or newer, and its torch."""
