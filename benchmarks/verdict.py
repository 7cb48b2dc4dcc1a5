"""From asking to verdict: ``hangtop triage`` on a job that hangs, beside a dump of its stacks by hand.

    python -m benchmarks.verdict            # needs root, sshd, namespaces and a C compiler; pdsh if it is there

Two nodes with OpenSSH, a job of four ranks for each of several hangs (those of ``tests/nodes``), asked about one after
the other, from a cold start: interpreter, connections, watching, stacks, verdict. Jobs over gloo, whose ranks wait in
torch, and jobs that wait below Python for their GPUs, as over NCCL. Each verdict is kept for
``benchmarks.certainty``. By hand, pdsh and py-spy bring the same stacks, which then are to be read and compared by
somebody.
"""

from __future__ import annotations

import shutil
import signal
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.report import FigureRow, report
from benchmarks.stacks import pdsh
from benchmarks.suites import judged
from benchmarks.verdicts import JudgedAnswer, keep
from tests.support.device_cases import CASES
from tests.support.device_jobs import device_jobs, wrong
from tests.support.faulty import Answer, FaultyJob, Nurseries, Triage, nurseries

BUDGET, WORST = 4.0, 10.0
BELOW_PYTHON = ("data_reader", "data_lock", "data_stopped", "own_prefetch", "grid_reader", "pipeline_lock")
"""Cases of ``tests/support/device_cases.py``."""


class Hang(NamedTuple):
    """A job of ``tests/support/faulty_jobs``, what is done to it, and the finding that names it."""

    program: str
    fault: str
    who: int
    kind: str
    ranks: tuple[int, ...]


HANGS = (
    Hang("lm.py", "reader", 2, "rank_stuck_in_data", (2,)),
    Hang("vision.py", "worker", 1, "rank_stuck_in_data", (1,)),
    Hang("lm.py", "checkpoint", 0, "rank_stuck_in_checkpoint", (0,)),
    Hang("lm.py", "lock", 1, "rank_stuck_on_lock", (1,)),
    Hang("lm.py", "busy", 3, "rank_stuck_in_code", (3,)),
    Hang("lm.py", "stop", 1, "rank_stopped", (1,)),
    Hang("vision.py", "only_here", 0, "collective_mismatch", (0,)),
    Hang("mesh.py", "pair_lock", 2, "rank_stuck_on_lock", (2,)),
    Hang("mesh.py", "both_receive", 2, "p2p_deadlock", (2, 3)),
)


def hang(nursery: Nurseries, case: Hang) -> FaultyJob:
    """A job that hangs."""
    job = nursery.launch(case.program, case.fault, env={"HX_FAULT": case.fault, "HX_WHO": str(case.who)})
    if case.fault == "stop":
        job.wait_for("moves")
        job.signal(case.who, signal.SIGSTOP)
    else:
        job.wait_for("struck", case.who)
    return job


def said(case: str, answer: Answer, right: bool) -> JudgedAnswer:
    """What an answer was worth; what is wrong is printed."""
    if not right:
        print("wrong:", case, answer.verdict, answer.data["summary"])
    return judged(case, "triage", answer, healthy=False, right=right)


def measure(nursery: Nurseries) -> tuple[list[JudgedAnswer], list[float]]:
    """Each verdict, and seconds of each dump by hand."""
    asked, hand = [], []
    for case in HANGS:
        job = hang(nursery, case)
        answer = Triage(nursery.cluster, case=job.case).answer()
        asked.append(
            said(f"{case.fault} in {case.program}", answer, answer.named() == ("hung", case.kind, list(case.ranks)))
        )
        if shutil.which("pdsh"):
            found = [job.processes(rank)[0] for rank in range(len(job.nodes) * job.ranks_per_node)]
            pids = {node.name: [p.pid for of, p in found if of is node] for node in nursery.cluster.nodes}
            hand.append(pdsh(nursery.cluster, pids, b"MainThread"))
        job.end()
    return asked, hand


def measure_below_python() -> list[JudgedAnswer]:
    """The same of jobs that wait for their GPUs."""
    asked = []
    with device_jobs() as jobs:
        for name in BELOW_PYTHON:
            with jobs.running(name) as job:
                answer = jobs.triage(job)
                asked.append(said(name, answer, not wrong(CASES[name], answer)))
    return asked


def seconds(asked: Sequence[JudgedAnswer]) -> tuple[float, ...]:
    """From asking to each verdict."""
    return tuple(one.took_s for one in asked)


def main() -> None:
    """Measure, print and write."""
    with nurseries() as nursery:
        asked, hand = measure(nursery)
    below = measure_below_python()
    rows = [
        FigureRow(f"from asking to the verdict, {len(HANGS)} hangs over gloo on 2 nodes", "s", seconds(asked), BUDGET),
        FigureRow(f"the same, {len(below)} hangs that wait below Python", "s", seconds(below), BUDGET),
        FigureRow("the slowest of all", "s", (max(seconds([*asked, *below])),), WORST),
    ]
    keep("verdict", [*asked, *below])
    if hand:
        rows.append(FigureRow("a dump of the same ranks by hand, to be read: pdsh and py-spy", "s", tuple(hand)))
        print(f"triage takes {statistics.median(seconds(asked)) / statistics.median(hand):.1f} times a dump by hand")
    report("verdict", rows)


if __name__ == "__main__":
    main()
