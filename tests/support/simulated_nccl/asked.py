"""What a job over the simulated NCCL is asked to do."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from hangtop.demo.job.faults import Plan
from tests.support.simulated_nccl.stream import LAUNCH_QUEUE


@dataclass(frozen=True, slots=True)
class NcclJobOptions:
    """Options of one job. Times are seconds."""

    plan: Plan
    steps: int
    step_time: float
    save_every: int
    folder: Path
    library: Path
    launch_queue: int
    sync_every: int
    log_every: int
    tensor_parallel: int
    pipeline_parallel: int
    micro_batches: int
    evaluate_at: int
    evaluate_for: float
    compile_at: int
    compile_for: float
    heartbeat: float
    uneven: float


def parse(description: str) -> NcclJobOptions:
    """Read the command line; a mistake in it ends the process with a usage message."""
    reads = argparse.ArgumentParser(description=description)
    reads.add_argument("--fault", default="", help="what goes wrong (default: nothing)")
    reads.add_argument("--fault-rank", type=int, default=1, help="on which rank")
    reads.add_argument("--after", type=float, default=3.0, help="after how many seconds of training")
    reads.add_argument("--steps", type=int, default=1_000_000)
    reads.add_argument("--step-time", type=float, default=0.1, help="what one step takes at least")
    reads.add_argument("--save-every", type=int, default=20, help="steps between checkpoints")
    reads.add_argument("--folder", type=Path, required=True, help="where shards and checkpoints are")
    reads.add_argument("--library", type=Path, required=True, help="the C library that stands for libcudart")
    reads.add_argument("--launch-queue", type=int, default=LAUNCH_QUEUE, help="kernels that may be under way")
    reads.add_argument("--sync-every", type=int, default=1, help="steps between two waits for the GPU")
    reads.add_argument("--log-every", type=int, default=1, help="steps between two lines of the log")
    reads.add_argument("--tp", type=int, default=1, help="ranks that share a layer")
    reads.add_argument("--pp", type=int, default=1, help="stages of the pipeline")
    reads.add_argument("--micro-batches", type=int, default=4, help="per step, with stages")
    reads.add_argument("--evaluate-at", type=int, default=0, help="step after which rank 0 evaluates; 0: never")
    reads.add_argument("--evaluate-for", type=float, default=40.0)
    reads.add_argument("--compile-at", type=int, default=0, help="step before which --fault-rank compiles; 0: never")
    reads.add_argument("--compile-for", type=float, default=90.0)
    reads.add_argument("--heartbeat", type=float, default=0.0, help="seconds between two signs of life in the log")
    reads.add_argument("--uneven", type=float, default=0.0, help="by what share the last rank's GPU is slower")
    given = reads.parse_args()
    return NcclJobOptions(
        Plan(given.fault, given.fault_rank, given.after),
        given.steps,
        given.step_time,
        given.save_every,
        given.folder,
        given.library,
        given.launch_queue,
        given.sync_every,
        given.log_every,
        given.tp,
        given.pp,
        given.micro_batches,
        given.evaluate_at,
        given.evaluate_for,
        given.compile_at,
        given.compile_for,
        given.heartbeat,
        given.uneven,
    )
