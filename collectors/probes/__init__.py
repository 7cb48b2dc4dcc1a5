"""Probes, run by a key or a command: stacks, flame graphs, all_reduce, path, InfiniBand, preflight, recorder, RAS."""
