"""From asking to verdict: ``hangtop triage`` on a job that hangs, beside a dump of its stacks by hand.

    python -m benchmarks.verdict            # needs root, sshd and namespaces; pdsh if it is there

Two nodes with OpenSSH, a job of four gloo ranks for each of several hangs (those of ``tests/nodes``), asked about one
after the other, from a cold start: interpreter, connections, four seconds of watching, stacks, verdict. Every verdict
must be right. By hand, pdsh and py-spy bring the same stacks, which then are to be read and compared by somebody.
"""

from __future__ import annotations

import shutil
import signal
import statistics
from typing import NamedTuple

from benchmarks.report import Row, report
from benchmarks.stacks import pdsh
from tests.support.faulty import FaultyJob, Nurseries, Triage, nurseries

BUDGET, WORST = 8.0, 15.0


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


def measure(nursery: Nurseries) -> tuple[list[float], list[float]]:
    """Seconds from asking to each verdict, and of each dump by hand."""
    asked, hand = [], []
    for case in HANGS:
        job = hang(nursery, case)
        answer = Triage(nursery.cluster, case=job.case).answer()
        assert answer.named() == ("hung", case.kind, list(case.ranks)), (case, answer.data["summary"])
        asked.append(answer.took)
        if shutil.which("pdsh"):
            found = [job.processes(rank)[0] for rank in range(len(job.nodes) * job.ranks_per_node)]
            pids = {node.name: [p.pid for of, p in found if of is node] for node in nursery.cluster.nodes}
            hand.append(pdsh(nursery.cluster, pids, b"MainThread"))
        job.end()
    return asked, hand


def main() -> None:
    """Measure, print and write."""
    with nurseries() as nursery:
        asked, hand = measure(nursery)
    rows = [
        Row(
            f"from asking to the verdict, {len(HANGS)} hangs on 2 nodes, 4 s of it watching", "s", tuple(asked), BUDGET
        ),
        Row("the slowest of them", "s", (max(asked),), WORST),
    ]
    if hand:
        rows.append(Row("a dump of the same ranks by hand, to be read: pdsh and py-spy", "s", tuple(hand)))
        print(f"triage takes {statistics.median(asked) / statistics.median(hand):.1f} times a dump by hand")
    report("verdict", rows)


if __name__ == "__main__":
    main()
