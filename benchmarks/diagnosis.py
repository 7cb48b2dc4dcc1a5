"""CPU of one verdict, which runs all rules.

Synthetic jobs of 64 and 2,048 nodes × 8 GPUs: healthy; all ranks but one wait in all_reduce; all ranks wait. The
stacks of both hung jobs have two samples. Run: ``python -m benchmarks.diagnosis [NODES …]``.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from benchmarks.report import FigureRow, report
from hangtop.diagnosis.finding import Outcome
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.made import gpu_row, pulse
from tests.support.screens import NOW, PID, Paper

PASSES = 5
TICKS = 30
"""Watched seconds before the verdict."""
ODD = 11
"""The rank that does not wait."""


class StuckPaper(Paper):
    """Ranks that spin in a collective: CPU, no switch of the main thread, GPUs at full utilisation and low power."""

    def _moving(self, rank: int, local: int, tick: int) -> list[NamedTuple]:
        odd = rank == self.slow
        return [
            pulse(PID + rank, state="S" if odd else "R", cpu_user=100 + (0 if odd else tick), voluntary_switches=500),
            gpu_row(local, utilization=0 if odd else 100, power=240.0, memory_used=60 << 30, sm_clock=1980),
        ]


def healthy(nodes: int) -> Job:
    """A healthy job."""
    return Paper(nodes=nodes, gpus=8).session(TICKS).job()


def held_up(nodes: int) -> Job:
    """All ranks but one wait in all_reduce."""
    return _stood(nodes, ODD)


def stalled(nodes: int) -> Job:
    """All ranks wait in all_reduce."""
    return _stood(nodes, None)


def _stood(nodes: int, odd: int | None) -> Job:
    paper = StuckPaper(nodes=nodes, gpus=8, slow=odd)
    session = paper.session(TICKS)
    for ago in (20.0, 10.0):
        for node, dump in paper.stacks(NOW - ago):
            session.stacks(node, [dump])
    return session.job_of(replace(session.snapshot(), stood_still=TICKS - 5.0, patience=TICKS / 2))


JOBS: dict[str, tuple[Callable[[int], Job], Outcome]] = {
    "healthy": (healthy, "healthy"),
    "one rank holds up the others": (held_up, "hung"),
    "all wait": (stalled, "hung"),
}
"""The function that makes each job, and the expected verdict."""


def measure(nodes: int) -> list[FigureRow]:
    """All figures for one number of nodes."""
    rows = []
    for name, (make, outcome) in JOBS.items():
        job = make(nodes)
        gc.collect()
        gc.freeze()
        seconds = []
        for _ in range(PASSES):
            fresh = replace(job)  # do not reuse values cached by the last pass
            began = time.thread_time()
            verdict = diagnose(fresh)
            seconds.append(time.thread_time() - began)
            assert verdict.outcome == outcome, verdict.summary
        size = f"{nodes:,} nodes × 8 GPUs, {name}"
        rows.append(FigureRow(f"{size}: CPU of a verdict", "s", tuple(seconds), 1.0 if nodes > 64 else None))
        gc.unfreeze()
    return rows


def main() -> None:
    """Measure the given sizes, or 64 and 2,048."""
    sizes = [int(word) for word in sys.argv[1:]] or [64, 2048]
    report("diagnosis", [row for nodes in sizes for row in measure(nodes)])


if __name__ == "__main__":
    main()
