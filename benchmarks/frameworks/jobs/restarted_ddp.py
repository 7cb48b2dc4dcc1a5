"""DistributedDataParallel under torchrun with one restart: at first rank 1 raises, and what befalls it comes later."""

from __future__ import annotations

import os

import mishaps
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

RAISES_AT = 2
"""Step at which the first attempt ends, before any rank has told that it moves."""


@record
def main() -> None:
    """One rank."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    mishaps.leave_word("begins", rank)
    model = DistributedDataParallel(torch.nn.Linear(32, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in mishaps.samples(rank):
        if attempt == 0 and rank == 1 and step == RAISES_AT:
            raise ValueError("a shard that cannot be read")
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
    main()
