"""Ranks whose environment, as they were started with it, does not say which rank they are.

    job.py spawn FIRST     two ranks of torch.multiprocessing.spawn, each told its number as an argument
    job.py task FIRST      the same, started with the RANK and WORLD_SIZE of its node, as a pod of a PyTorchJob has them
    job.py late RANK       sets RANK and WORLD_SIZE itself once it runs, as Lightning, Ray Train and many scripts do
    job.py title RANK      was started with RANK, and destroys the memory that held it, as setproctitle does

Rank HX_WHO blocks in its reader at step 10 and says "struck"; the others wait for it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

WHO = int(os.environ.get("HX_WHO", "-1"))
WORLD = int(os.environ["HX_WORLD"])


def say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


def read_shard() -> bytes:
    say("struck")
    reader, _ = os.pipe()
    return os.read(reader, 4096)


def train(rank: int) -> None:
    gradient = torch.ones(1000)
    step = 0
    while True:
        step += 1
        if step == 10:
            say("moves")
            if rank == WHO:
                read_shard()
        dist.all_reduce(gradient)


def spawned(local: int, first: int) -> None:
    dist.init_process_group("gloo", rank=first + local, world_size=WORLD)
    train(first + local)


def overwrite_environment() -> None:
    """Move every variable to new memory, and clear the place where the kernel put them."""
    for name, value in os.environ.items():
        os.putenv(name, value)
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = int(fields[47]), int(fields[48])  # env_start and env_end of proc_pid_stat(5)
    ctypes.memset(begin, 0, end - begin)


def main() -> None:
    mode, number = sys.argv[1], int(sys.argv[2])
    if mode in ("spawn", "task"):
        mp.spawn(spawned, args=(number,), nprocs=2)
        return
    if mode == "late":
        os.environ.update(RANK=str(number), WORLD_SIZE=str(WORLD))
    else:
        overwrite_environment()
    dist.init_process_group("gloo")
    train(number)


if __name__ == "__main__":
    main()
