"""A typical DistributedDataParallel job: a loop over a DataLoader, checkpoints by rank 0.

Any launcher works: the job reads RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT from its environment.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from hangtop.demo.job import faults
from hangtop.demo.job.data import LENGTH, ShardedTokens, save_checkpoint, write_shards
from hangtop.demo.job.device import RankGpu
from hangtop.demo.job.joining import join

STEP_S = 0.25
"""Shortest time of one step, in seconds."""
SAVE_EVERY = 20
"""Steps between checkpoints."""


def arguments() -> argparse.Namespace:
    """Parse the command line; an error ends the process with a usage message."""
    reads = argparse.ArgumentParser(description="Train a small model with DistributedDataParallel over gloo.")
    reads.add_argument("--fault", choices=["", *faults.FAULTS], default="", help="what goes wrong (default: nothing)")
    reads.add_argument("--fault-rank", type=int, default=1, help="on which rank")
    reads.add_argument("--after", type=float, default=3.0, help="after how many seconds of training")
    reads.add_argument("--folder", type=Path, required=True, help="where shards and checkpoints are")
    return reads.parse_args()


class Head(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(LENGTH, 64)
        self.predict = nn.Linear(64, LENGTH)

    def forward(self, tokens: Tensor) -> Tensor:
        """Reconstruct ``tokens`` of shape (batch, LENGTH)."""
        return self.predict(torch.tanh(self.embed(tokens)))


def augment(batch: Tensor) -> Tensor:
    """Add noise; with the planted fault, this takes the CPU time of nine more steps."""
    until = time.monotonic() + (9 * STEP_S if faults.struck("straggler") else 0.0)
    noisy = batch + 0.01 * torch.randn_like(batch)
    while time.monotonic() < until:
        noisy = noisy + 0.0001 * torch.randn_like(batch)
    return noisy


def batches(folder: Path) -> Iterator[Tensor]:
    """Endless batches, epoch after epoch."""
    dataset = ShardedTokens(folder)
    sampler: DistributedSampler[Tensor] = DistributedSampler(dataset, shuffle=False)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    while True:
        yield from loader


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Tensor, gpu: RankGpu) -> Tensor:
    """Forward, backward with DDP's all-reduce, and the update."""
    with gpu.kernels():
        gpu.compute(STEP_S)
        loss = torch.nn.functional.mse_loss(model(batch), batch)
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def log_metrics(loss: Tensor, step: int, took: float, gpu: RankGpu, metrics: dist.ProcessGroup) -> None:
    """Print the step; with the planted fault, only this rank enters an all_reduce first."""
    if faults.struck("conditional"):
        with gpu.kernels():
            dist.all_reduce(loss, group=metrics)
    print(f"step {step} loss {loss.item():.4f} ({took:.2f} s)", flush=True)


def train(given: argparse.Namespace) -> None:
    """Train until the process ends."""
    folder: Path = given.folder
    rank = dist.get_rank()
    shards = folder / f"shards-{rank}"
    write_shards(shards)
    torch.manual_seed(rank)
    gpu = RankGpu(memory=(30 + rank % 3) << 30)
    model = DistributedDataParallel(Head())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    metrics = dist.new_group()
    saver = given.fault_rank if given.fault == "checkpoint" else 0
    dist.barrier()
    if rank == given.fault_rank:
        faults.arm(given.fault, given.after)
    started = time.monotonic()
    for step, batch in enumerate(batches(shards), start=1):
        faults.suffer()
        loss = train_step(model, optimizer, augment(batch), gpu)
        log_metrics(loss, step, time.monotonic() - started, gpu, metrics)
        if step % SAVE_EVERY == 0 and rank == saver:
            save_checkpoint(model.module, step, folder / "checkpoints")
        started = time.monotonic()


def main() -> None:
    """Join the job and train."""
    given = arguments()
    torch.set_num_threads(1)
    while given.fault == "init" and int(os.environ["RANK"]) == given.fault_rank:
        time.sleep(1.0)
    join()
    train(given)


if __name__ == "__main__":
    main()
