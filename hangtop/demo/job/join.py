"""Joining the job's default process group."""

from __future__ import annotations

import os

import torch.distributed as dist

from hangtop.demo.job import witness


def join() -> None:
    """Join over gloo. Ranks whose master is this machine's loopback talk over it: host names need not resolve."""
    if os.environ["MASTER_ADDR"] == "127.0.0.1":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    witness.serve(int(os.environ["RANK"]))
    dist.init_process_group("gloo")
