"""The command line that all jobs here share."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from hangtop.demo.job.faults import FAULTS, Plan


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a job is asked to do. Times are seconds."""

    plan: Plan
    steps: int
    step_time: float
    save_every: int
    save_time: float
    compile_time: float
    workers: int
    folder: Path


def parse(description: str) -> Arguments:
    """Read the command line; a mistake in it ends the process with a usage message."""
    return arguments(parser(description).parse_args())


def parser(description: str) -> argparse.ArgumentParser:
    """What reads the options that all jobs have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--fault", choices=["", *FAULTS], default="", help="what goes wrong (default: nothing)")
    parser.add_argument("--fault-rank", type=int, default=1, help="on which rank")
    parser.add_argument("--after", type=float, default=3.0, help="after how many seconds of training")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--step-time", type=float, default=0.1, help="what one step takes at least")
    parser.add_argument("--save-every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--save-time", type=float, default=0.0, help="what a checkpoint takes more than its writing")
    parser.add_argument("--compile-time", type=float, default=0.0, help="what a compilation before step 1 takes")
    parser.add_argument("--workers", type=int, default=0, help="data loader workers per rank")
    parser.add_argument("--folder", type=Path, required=True, help="where shards and checkpoints are")
    return parser


def arguments(given: argparse.Namespace) -> Arguments:
    """What :func:`parser` has read."""
    return Arguments(
        Plan(given.fault, given.fault_rank, given.after),
        given.steps,
        given.step_time,
        given.save_every,
        given.save_time,
        given.compile_time,
        given.workers,
        given.folder,
    )
