"""Ranks whose environment, as they were started with it, does not say which rank they are.

    job.py spawn FIRST     two ranks of torch.multiprocessing.spawn, each told its number as an argument

Rank HX_WHO blocks in its reader at step 10 and says "struck"; the others wait for it.
"""

from __future__ import annotations

import os
import sys

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


def main() -> None:
    mp.spawn(spawned, args=(int(sys.argv[2]),), nprocs=2)


if __name__ == "__main__":
    main()
