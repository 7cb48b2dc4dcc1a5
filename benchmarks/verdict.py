"""How often ``hangtop triage`` is right about jobs whose fault is known, and how long it takes to say so.

    python -m benchmarks.verdict [--suite gloo|device] [--only NAME …]     # root, sshd, namespaces, a C compiler

The jobs are those of the tests, with their healthy twins: ``gloo`` waits in torch, ``device`` below Python as over
NCCL. Each is asked about from a cold start: interpreter, connections, watching, stacks, verdict. Wrong answers are
printed.
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.report import FigureRow, report
from tests.nodes.test_faults_healthy import JOBS
from tests.support.device_cases import CASES
from tests.support.device_jobs import device_jobs, wrong
from tests.support.faulty import Answer, FaultyJob, Nurseries, Triage, nurseries
from tests.support.hung_cases import CASES as HANGS

BUDGET, WORST = 4.0, 10.0


class JudgedAnswer(NamedTuple):
    """One answer about one job."""

    case: str
    healthy: bool
    right: bool
    raised: bool
    """A finding that is more than information."""
    took_s: float


def judged(case: str, answer: Answer, *, healthy: bool, right: bool) -> JudgedAnswer:
    """The row of one answer; a wrong one is printed."""
    if not right:
        print("wrong:", case, answer.verdict, answer.data["summary"], flush=True)
    raised = any(finding["severity"] != "info" for finding in answer.findings)
    return JudgedAnswer(case, healthy, right, raised, round(answer.took, 2))


def hung(nursery: Nurseries, name: str) -> JudgedAnswer:
    """Ask about a job over gloo that hangs."""
    case = HANGS[name]
    job = nursery.launch(case.program, name, env={"HX_FAULT": case.fault, "HX_WHO": str(case.who)})
    if case.signal:
        job.wait_for("moves")
        job.signal(case.who, signal.Signals(case.signal))
    else:
        job.wait_for("struck", case.who)
    answer = asked(nursery, job)
    right = bool(answer.findings) and answer.named() == ("hung", case.kind, list(case.ranks))
    return judged(name, answer, healthy=False, right=right)


def moving(nursery: Nurseries, name: str) -> JudgedAnswer:
    """Ask about a job over gloo that is healthy, or merely slow."""
    program, env, word, rank = JOBS[name]
    job = nursery.launch(program, name, env=env)
    job.wait_for(word, rank)
    answer = asked(nursery, job)
    if name == "slow_rank":
        right = bool(answer.findings) and answer.named() == ("slow", "straggler_rank", [2])
        return judged(name, answer, healthy=False, right=right)
    return judged(name, answer, healthy=True, right=not answer.alarms)


def asked(nursery: Nurseries, job: FaultyJob) -> Answer:
    """What triage says of a job, which then ends."""
    try:
        return Triage(nursery.cluster, case=job.case).answer()
    finally:
        job.end()


def gloo(only: Sequence[str]) -> Iterator[JudgedAnswer]:
    """All jobs over gloo."""
    with nurseries() as nursery:
        for name in HANGS:
            if not only or name in only:
                yield hung(nursery, name)
        for name in JOBS:
            if not only or name in only:
                yield moving(nursery, name)


def device(only: Sequence[str]) -> Iterator[JudgedAnswer]:
    """All jobs that wait below Python."""
    with device_jobs() as jobs:
        for name, case in CASES.items():
            if only and name not in only:
                continue
            with jobs.running(name) as job:
                answer = jobs.triage(job)
            yield judged(name, answer, healthy=case.healthy, right=not wrong(case, answer))


SUITES = {"gloo": gloo, "device": device}


def rows(suite: str, answers: Sequence[JudgedAnswer]) -> Iterator[FigureRow]:
    """The table of one suite."""
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
    """Play what is asked for, print and write."""
    reads = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reads.add_argument("--suite", choices=SUITES)
    reads.add_argument("--only", action="append", default=[], choices=[*CASES, *HANGS, *JOBS], metavar="NAME")
    given = reads.parse_args()
    suites = [given.suite] if given.suite else [*SUITES]
    report("verdict", [row for suite in suites for row in rows(suite, list(SUITES[suite](given.only)))])


if __name__ == "__main__":
    main()
