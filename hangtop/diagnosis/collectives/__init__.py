"""Which rank launched which collective, by flight recorders, watchdogs, RAS and NCCL's log of all ranks."""
