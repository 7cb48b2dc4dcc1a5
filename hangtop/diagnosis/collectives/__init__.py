"""Who launched which collective: flight recorders, watchdogs, RAS and NCCL's log of all ranks, put side by side."""
