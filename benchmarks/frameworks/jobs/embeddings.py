"""Embedding tables spread over the ranks (all_to_all of ids and rows), data loader workers; started by mpirun."""

from __future__ import annotations

import os
from collections.abc import Iterator

import mishaps
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset

ROWS, WIDTH, BATCH = 1000, 16, 12


class Clicks(IterableDataset[torch.Tensor]):
    """Ids without an end, read by a worker process."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in mishaps.samples(self.rank):
            yield torch.randint(0, ROWS, (BATCH,))


def looked_up(table: torch.nn.Embedding, ids: torch.Tensor) -> torch.Tensor:
    """Rows of these ids: each rank holds a part of the table."""
    asked = torch.empty_like(ids)
    dist.all_to_all_single(asked, ids)
    rows = table(asked).detach()
    given = torch.empty_like(rows)
    dist.all_to_all_single(given, rows)
    return given


def main() -> None:
    """One rank."""
    torch.set_num_threads(1)
    rank, world = (int(os.environ[f"OMPI_COMM_WORLD_{word}"]) for word in ("RANK", "SIZE"))
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{os.environ['PORT']}", rank=rank, world_size=world)
    mishaps.leave_word("begins", rank)
    table = torch.nn.Embedding(ROWS, WIDTH)
    dense = DistributedDataParallel(torch.nn.Linear(WIDTH, 1))
    optimizer = torch.optim.Adagrad(dense.parameters())
    for step, ids in enumerate(DataLoader(Clicks(rank), batch_size=None, num_workers=1), start=1):
        loss = dense(looked_up(table, ids)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        mishaps.look_up(rank, step)
        optimizer.step()
        if mishaps.is_due("only_here", rank, step):
            dist.barrier()
        path = mishaps.checkpoint_path(rank, step)
        if path is not None:
            torch.save(dense.state_dict(), path)
            dist.barrier()
        if mishaps.evaluate(rank, step):
            dist.barrier()
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
