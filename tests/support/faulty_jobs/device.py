"""A data-parallel job whose ranks wait as over NCCL, below Python: gradients in buckets, the loss asked for each step.

HX_LIBRARY is the C library that stands for libcudart (:mod:`tests.support.simulated_nccl`).
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

from hangtop.demo.job.joining import join
from tests.support.faulty_jobs.striking import FOLDER, RANK, dead_file, say, strikes
from tests.support.simulated_nccl.stream import SimulatedStream

STEP_SECONDS = 0.4
LAYERS, BUCKETS = 4, 3
NICENESS = 10
"""A main thread that spins leaves the processor to whoever else wants it, gloo's threads and those of the GPU first."""
EVALUATION = 40.0
"""Seconds."""


class Trainer:
    def __init__(self) -> None:
        self.stream = SimulatedStream(Path(os.environ["HX_LIBRARY"]), (30 + RANK % 3) << 30)
        self.buckets = [torch.zeros(4096) for _ in range(BUCKETS)]
        self.norms = dist.new_group(group_desc="grad_norm")

    def read_batch(self, step: int) -> bytes:
        path = FOLDER / f"shard-{RANK}.bin"
        path.write_bytes(bytes(64))
        return (dead_file("shard-stale.bin") if strikes(step, "reader") else path).read_bytes()

    def evaluate(self) -> None:
        """The GPU computes, the host waits for each batch, no peer takes part."""
        until = time.monotonic() + EVALUATION
        while time.monotonic() < until:
            self.stream.compute(0.8)
            self.stream.item()

    def train_step(self, step: int) -> None:
        """Launch forward, backward with the exchange of gradients, their norm, and the update."""
        if strikes(step, "gpu_hangs"):
            self.stream.hang()
        for _layer in range(LAYERS):
            self.stream.compute(STEP_SECONDS / 3 / LAYERS)
        for bucket in self.buckets:
            self.stream.compute(STEP_SECONDS * 2 / 3 / BUCKETS)
            self.stream.all_reduce(bucket, None)
        if not strikes(step, "missing"):
            self.stream.all_reduce(torch.zeros(1), self.norms)

    def train(self) -> None:
        for step in range(1, 1_000_000):
            self.read_batch(step)
            if strikes(step, "evaluates"):
                self.evaluate()
            self.train_step(step)
            self.stream.item()
            say(f"step {step} loss {8 / (1 + step / 50) + 2:.4f}")
            if step == 6:
                say("moves")


torch.set_num_threads(1)
join()
trainer = Trainer()
dist.barrier()
os.nice(NICENESS)  # this thread alone
trainer.train()
