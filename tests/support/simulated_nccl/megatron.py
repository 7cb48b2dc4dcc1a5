"""A job split three ways, tensor, pipeline and data, that waits as jobs over NCCL do.

``--tp 2 --pp 2`` of four ranks; ``--pp 4`` is a pipeline alone. The first and the last stage read data.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count

import torch
import torch.distributed as dist
from torch import Tensor

from hangtop.demo.job import faults
from hangtop.demo.job.data import LENGTH, SEQUENCES, ShardedTokens, save_checkpoint, write_shards
from tests.support.simulated_nccl.habits import SAVE_EVERY, JobOptions, between_steps, settle
from tests.support.simulated_nccl.pipeline import JobGroups, forward_backward
from tests.support.simulated_nccl.stream import SimulatedStream

LAYERS = 2


class MegatronStage:
    """The layers of one stage, of which this rank has its tensor-parallel share."""

    def __init__(self, asked: JobOptions, groups: JobGroups, stream: SimulatedStream) -> None:
        self.asked, self.groups, self.stream = asked, groups, stream
        self._budget = faults.TokenBudget()
        self._samples = self._read()
        self._layer = asked.step_time / asked.micro_batches / LAYERS / 3

    def _read(self) -> Iterator[Tensor]:
        """Sequences without end."""
        dataset = ShardedTokens(self.asked.folder / f"shards-{self.groups.rank}")
        while True:
            for index in range(SEQUENCES):
                yield dataset[index]

    def get_batch(self) -> Tensor:
        """Read a sequence."""
        return next(self._samples)

    def forward_step(self) -> None:
        """One micro-batch forward: each layer sums over the tensor-parallel group."""
        if self.groups.first or self.groups.last or faults.struck("dataloader"):
            self.get_batch()
        faults.suffer(self._budget, self.asked.folder)
        if faults.struck("network"):
            self.stream.lose_network()
        if faults.struck("gpu-hang"):
            self.stream.hang()
        for _layer in range(LAYERS):
            self.stream.compute(self._layer)
            self._reduce_from_tensor_parallel_region()

    def backward_step(self) -> None:
        """One micro-batch backward."""
        for _layer in range(LAYERS):
            self.stream.compute(2 * self._layer)
            self._reduce_from_tensor_parallel_region()

    def _reduce_from_tensor_parallel_region(self) -> None:
        if self.groups.sizes.tensor > 1:
            self.stream.all_reduce(torch.zeros(1024), self.groups.tensor)

    def finalize_model_grads(self) -> None:
        """Average gradients over the data-parallel group."""
        if self.groups.sizes.data > 1:
            self.stream.all_reduce(torch.zeros(4096), self.groups.data)

    def optimizer_step(self) -> None:
        """Sum the norm over all parts of the model and update; with a planted fault this rank skips the sum."""
        if not faults.struck("missing"):
            self.stream.all_reduce(torch.zeros(1), self.groups.model)
        self.stream.compute(self._layer)


def train(asked: JobOptions) -> None:
    """Train without end."""
    groups = JobGroups(asked.tp, asked.pp)
    write_shards(asked.folder / f"shards-{groups.rank}")
    stream = SimulatedStream(asked.library, (44 + 6 * groups.stage) << 30)
    stage = MegatronStage(asked, groups, stream)
    weights = torch.nn.Linear(LENGTH, LENGTH)
    dist.barrier()
    settle()
    faults.arm(asked.plan, groups.rank)
    for step in count(1):
        started = time.monotonic()
        between_steps(asked, stream, groups.rank, step)
        forward_backward(groups, stream, asked.micro_batches, stage.forward_step, stage.backward_step)
        stage.finalize_model_grads()
        stage.optimizer_step()
        stream.item()
        took = 1000 * (time.monotonic() - started)
        print(f" iteration {step:8d}/  1000000 | elapsed time per iteration (ms): {took:.1f} |", flush=True)
        if faults.struck("checkpoint") or (step % SAVE_EVERY == 0 and groups.rank == 0):
            save_checkpoint(weights, step, asked.folder / "checkpoints")
