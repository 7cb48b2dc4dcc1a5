"""DistributedDataParallel, started by torch.multiprocessing.spawn: the ranks know their number from an argument."""

from __future__ import annotations

import os

import mishaps
import torch
import torch.distributed as dist
from torch import multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

WORLD = 3


def train(rank: int) -> None:
    """One rank."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{os.environ['PORT']}", rank=rank, world_size=WORLD)
    mishaps.leave_word("begins", rank)
    model = DistributedDataParallel(torch.nn.Linear(32, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in mishaps.samples(rank):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 32)).square().mean()
        loss.backward()
        mishaps.look_up(rank, step)
        optimizer.step()
        if mishaps.is_due("only_here", rank, step):
            dist.barrier()
        path = mishaps.checkpoint_path(rank, step)
        if path is not None:
            torch.save(model.state_dict(), path)
            dist.barrier()
        if mishaps.evaluate(rank, step):
            dist.barrier()
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(train, nprocs=WORLD)
