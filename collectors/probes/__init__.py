"""Asked for by a key or a command: stacks, flame graphs, allreduce, path, traces, preflight."""
