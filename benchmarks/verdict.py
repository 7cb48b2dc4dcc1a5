"""How often ``hangtop triage`` is right about jobs with a known fault, and how long it takes.

    python -m benchmarks.verdict [--suite gloo|device] [--only NAME …]     # root, sshd, namespaces, a C compiler

The jobs are those of the tests, with their healthy twins: ``gloo`` waits in torch, ``device`` below Python as over
NCCL. Each answer starts cold: interpreter, connections, watching, stacks, verdict. Wrong answers are printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.report import FigureRow, report
from tests.support.devices import devices_of
from tests.support.faulty import nurseries
from tests.support.real_jobs import DEVICE, HANGING, MOVING, PAUSING, Batches, RealJob

BUDGET, WORST = 4.0, 10.0


class JudgedAnswer(NamedTuple):
    """One answer about one job."""

    case: str
    healthy: bool
    right: bool
    raised: bool
    """True if any finding is worse than ``info``."""
    took_s: float


def judged(answers: Batches, jobs: dict[str, RealJob], only: Sequence[str]) -> Iterator[JudgedAnswer]:
    """Judge jobs one at a time; print wrong answers."""
    for name, job in jobs.items():
        if only and name not in only:
            continue
        answer = answers[name]
        if wrong := job.wrong(answer):
            print("wrong:", name, wrong, flush=True)
        raised = any(finding["severity"] != "info" for finding in answer.findings)
        yield JudgedAnswer(name, not job.kinds, not wrong, raised, round(answer.took, 2))


def gloo(only: Sequence[str]) -> Iterator[JudgedAnswer]:
    """All jobs over gloo."""
    with nurseries() as nursery:
        for jobs in (HANGING, PAUSING, MOVING):
            yield from judged(Batches(nursery, jobs, at_once=1), jobs, only)


def device(only: Sequence[str]) -> Iterator[JudgedAnswer]:
    """All jobs that wait below Python."""
    with nurseries() as nursery, devices_of(nursery.cluster) as devices:
        yield from judged(Batches(nursery, DEVICE, at_once=1, devices=devices), DEVICE, only)


SUITES = {"gloo": gloo, "device": device}


def rows(suite: str, answers: Sequence[JudgedAnswer]) -> Iterator[FigureRow]:
    """The rows of one suite."""
    faults, healthy = [one for one in answers if not one.healthy], [one for one in answers if one.healthy]
    if faults:
        name = f"{suite}: {len(faults)} faults"
        yield FigureRow(f"{name}, named right", "", (sum(one.right for one in faults),))
        yield FigureRow(f"{name}, nothing raised", "", (sum(not one.raised for one in faults),))
        yield FigureRow(f"{name}, from asking to the verdict", "s", tuple(one.took_s for one in faults), BUDGET)
        yield FigureRow(f"{name}, the slowest", "s", (max(one.took_s for one in faults),), WORST)
    if healthy:
        accused = sum(not one.right for one in healthy)
        yield FigureRow(f"{suite}: {len(healthy)} healthy jobs, accused", "", (accused,), 0.0)


def main() -> None:
    """Run the chosen jobs, and report."""
    reads = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reads.add_argument("--suite", choices=SUITES)
    reads.add_argument(
        "--only", action="append", default=[], choices=[*HANGING, *PAUSING, *MOVING, *DEVICE], metavar="NAME"
    )
    given = reads.parse_args()
    suites = [given.suite] if given.suite else [*SUITES]
    report("verdict", [row for suite in suites for row in rows(suite, list(SUITES[suite](given.only)))])


if __name__ == "__main__":
    main()
