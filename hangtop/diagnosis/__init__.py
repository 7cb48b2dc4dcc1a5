"""Samples, stacks and log events in, findings out: pure functions, no I/O, no clock of their own."""
