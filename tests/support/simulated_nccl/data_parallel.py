"""A data-parallel job that waits as jobs over NCCL do: gradients in buckets, the loss asked for after each step."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from hangtop.demo.job import faults
from hangtop.demo.job.data import LENGTH, ShardedTokens, save_checkpoint, write_shards
from tests.support.simulated_nccl.habits import SAVE_EVERY, JobOptions, between_steps, settle
from tests.support.simulated_nccl.stream import SimulatedStream

LAYERS, BUCKETS = 4, 3
BATCH = 8


class Averager:
    """Averages gradients over all ranks, bucket by bucket."""

    def __init__(self, stream: SimulatedStream) -> None:
        self._stream = stream
        self._buckets = [torch.zeros(4096) for _ in range(BUCKETS)]
        self.norms = dist.new_group(group_desc="grad_norm")

    def backward(self, seconds: float) -> None:
        """Launch the backward pass: as soon as a bucket is full it goes round."""
        for bucket in self._buckets:
            self._stream.compute(seconds / BUCKETS)
            self._stream.all_reduce(bucket, None)

    def clip_gradients(self) -> None:
        """Sum the norms over all ranks; a rank with a planted fault takes its own for finite, and leaves it out."""
        if not faults.struck("missing"):
            self._stream.all_reduce(torch.zeros(1), self.norms)


def batches(asked: JobOptions) -> Iterator[Tensor]:
    """Batches without end, epoch after epoch."""
    dataset = ShardedTokens(asked.folder / f"shards-{dist.get_rank()}")
    while True:
        for first in range(0, len(dataset), BATCH):
            yield torch.stack([dataset[index] for index in range(first, first + BATCH)])


def train_step(averager: Averager, stream: SimulatedStream, seconds: float) -> None:
    """Launch forward, backward with the exchange of gradients, and the update."""
    if faults.struck("gpu-hang"):
        stream.hang()
    for _layer in range(LAYERS):
        stream.compute(seconds / 3 / LAYERS)
    averager.backward(seconds * 2 / 3)
    averager.clip_gradients()
    stream.compute(seconds / 100)


def log_metrics(stream: SimulatedStream, step: int, started: float) -> None:
    """Ask the GPU for the loss and print it."""
    stream.item()
    print(f"step {step} loss {8 / (1 + step / 50) + 2:.4f} ({time.monotonic() - started:.2f} s)", flush=True)


def train(asked: JobOptions) -> None:
    """Train without end."""
    rank = dist.get_rank()
    write_shards(asked.folder / f"shards-{rank}")
    stream = SimulatedStream(asked.library, (30 + rank % 3) << 30)
    averager, budget = Averager(stream), faults.TokenBudget()
    weights = torch.nn.Linear(LENGTH, LENGTH)
    dist.barrier()
    settle()
    faults.arm(asked.plan, rank)
    step_time = asked.step_time
    started = time.monotonic()
    for step, _batch in enumerate(batches(asked), start=1):
        between_steps(asked, stream, rank, step)
        faults.suffer(budget, asked.folder)
        if faults.struck("network"):
            stream.lose_network()
        train_step(averager, stream, step_time)
        log_metrics(stream, step, started)
        if faults.struck("checkpoint") or (step % SAVE_EVERY == 0 and rank == 0):
            save_checkpoint(weights, step, asked.folder / "checkpoints")
        started = time.monotonic()
