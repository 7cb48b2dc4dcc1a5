"""The all_reduce probe: all nodes together, then pairs of nodes to find the bad node; NCCL's log, nccl-tests."""
