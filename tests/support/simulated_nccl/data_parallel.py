"""A data-parallel job that waits as jobs over NCCL do: gradients in buckets, the loss asked for after each step.

Any launcher will do: it reads RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT from its environment.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from hangtop.demo.job import faults
from hangtop.demo.job.data import LENGTH, ShardedTokens, save_checkpoint, write_shards
from hangtop.demo.job.faults import Plan
from hangtop.demo.job.joining import join
from tests.support.simulated_nccl.asked import NcclJobOptions, parse
from tests.support.simulated_nccl.habits import between_steps, settle
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


def batches(asked: NcclJobOptions) -> Iterator[Tensor]:
    """Batches without end, epoch after epoch; on a rank with a planted fault they end."""
    dataset = ShardedTokens(asked.folder / f"shards-{dist.get_rank()}")
    while True:
        for first in range(0, len(dataset), BATCH):
            if faults.struck("batches"):
                return
            yield torch.stack([dataset[index] for index in range(first, first + BATCH)])


def augment(batch: Tensor, seconds: float) -> Tensor:
    """Add noise; on a rank with a planted fault this takes so many seconds of CPU."""
    until = time.monotonic() + (seconds if faults.struck("straggler") else 0.0)
    noisy = batch + 0.01 * torch.randn_like(batch)
    while time.monotonic() < until:
        noisy = noisy + 0.0001 * torch.randn_like(batch)
    return noisy


def train_step(averager: Averager, stream: SimulatedStream, seconds: float) -> None:
    """Launch forward, backward with the exchange of gradients, and the update."""
    if faults.struck("gpu-hang"):
        stream.hang()
    for _layer in range(LAYERS):
        stream.compute(seconds / 3 / LAYERS)
    averager.backward(seconds * 2 / 3)
    averager.clip_gradients()
    stream.compute(seconds / 100)


def log_metrics(stream: SimulatedStream, step: int, started: float, asked: NcclJobOptions, averager: Averager) -> None:
    """Ask the GPU for the loss and print it; with a planted fault this rank alone wants the mean over all ranks."""
    if faults.struck("conditional"):
        stream.all_reduce(torch.zeros(1), averager.norms)
    if step % asked.sync_every == 0:
        stream.item()
    if step % asked.log_every == 0:
        print(f"step {step} loss {8 / (1 + step / 50) + 2:.4f} ({time.monotonic() - started:.2f} s)", flush=True)


def train(asked: NcclJobOptions) -> None:
    """Train until the steps are done."""
    rank, arguments = dist.get_rank(), asked
    write_shards(arguments.folder / f"shards-{rank}")
    stream = SimulatedStream(asked.library, (30 + rank % 3) << 30, asked.launch_queue)
    averager, budget = Averager(stream), faults.TokenBudget()
    weights = torch.nn.Linear(LENGTH, LENGTH)
    dist.barrier()
    settle(asked.heartbeat)
    faults.arm(arguments.plan, rank)
    step_time = arguments.step_time * (1 + asked.uneven * rank / dist.get_world_size())
    started = time.monotonic()
    for step, batch in enumerate(batches(asked), start=1):
        between_steps(asked, stream, rank, step)
        faults.suffer(budget, arguments.folder)
        if faults.struck("network"):
            stream.lose_network()
        augment(batch, 9 * arguments.step_time)
        train_step(averager, stream, step_time)
        log_metrics(stream, step, started, asked, averager)
        if faults.struck("checkpoint") or (step % arguments.save_every == 0 and rank == 0):
            save_checkpoint(weights, step, arguments.folder / "checkpoints")
        if step == arguments.steps:
            break
        started = time.monotonic()
    stream.all_reduce(torch.zeros(1), averager.norms)
    stream.synchronize()


def main() -> None:
    """Join the job and train."""
    asked = parse("Train data-parallel over a simulated NCCL.")
    plan = asked.plan
    torch.set_num_threads(1)
    faults.arm(Plan(plan.fault, plan.rank), int(os.environ["RANK"]))  # there is no step to wait for
    while faults.struck("init"):
        time.sleep(1.0)
    join()
    train(asked)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
