"""What a job over the simulated NCCL is asked to do, and what it does besides its steps: it evaluates."""

from __future__ import annotations

import argparse
import os
import shlex
import time
from dataclasses import dataclass
from pathlib import Path

from hangtop.demo.job.faults import Plan
from tests.support.simulated_nccl.stream import SimulatedStream

NICENESS = 10
"""A main thread that spins leaves the processor to whoever else wants it, gloo's threads and those of the GPU first."""
SAVE_EVERY = 20
"""Steps between checkpoints."""
EVALUATE_FOR = 40.0
"""Seconds."""


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Options of one job. Times are seconds."""

    plan: Plan
    step_time: float
    folder: Path
    library: Path
    tp: int
    pp: int
    micro_batches: int
    evaluate_at: int


def options() -> JobOptions:
    """Read HX_ARGUMENTS; a mistake in it ends the process with a usage message."""
    reads = argparse.ArgumentParser()
    reads.add_argument("--fault", default="", help="what goes wrong (default: nothing)")
    reads.add_argument("--fault-rank", type=int, default=1, help="on which rank")
    reads.add_argument("--after", type=float, default=3.0, help="after how many seconds of training")
    reads.add_argument("--step-time", type=float, default=0.1, help="what one step takes at least")
    reads.add_argument("--folder", type=Path, required=True, help="where shards and checkpoints are")
    reads.add_argument("--library", type=Path, required=True, help="the C library that stands for libcudart")
    reads.add_argument("--tp", type=int, default=1, help="ranks that share a layer")
    reads.add_argument("--pp", type=int, default=1, help="stages of the pipeline")
    reads.add_argument("--micro-batches", type=int, default=4, help="per step, with stages")
    reads.add_argument("--evaluate-at", type=int, default=0, help="step after which rank 0 evaluates; 0: never")
    given = vars(reads.parse_args(shlex.split(os.environ["HX_ARGUMENTS"])))
    plan = Plan(given.pop("fault"), given.pop("fault_rank"), given.pop("after"))
    return JobOptions(plan, **given)


def settle() -> None:
    """Be nice with this thread alone."""
    os.nice(NICENESS)


def evaluate(stream: SimulatedStream) -> None:
    """Evaluate: the GPU computes, the host waits for each batch, no peer takes part."""
    until = time.monotonic() + EVALUATE_FOR
    print("evaluating on rank 0", flush=True)
    while time.monotonic() < until:
        for _layer in range(4):
            stream.compute(0.2)
        stream.item()


def between_steps(asked: JobOptions, stream: SimulatedStream, rank: int, step: int) -> None:
    """Do before ``step`` what is due."""
    if step == asked.evaluate_at + 1 and asked.evaluate_at and rank == 0:
        evaluate(stream)
