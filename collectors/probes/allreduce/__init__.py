"""The all_reduce probe: all nodes together, then pairs of nodes to find the bad one; NCCL's own log, nccl-tests."""
