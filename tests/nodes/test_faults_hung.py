"""Every way to hang, on real ranks and through ``hangtop triage --json``: kind and culprit right, and nobody else's.

The programs are those of tests/support/faulty_jobs; several jobs run side by side on the same nodes.
"""

from __future__ import annotations

import signal
from typing import NamedTuple

import pytest

from tests.support.faulty import Batches, FaultyJob, Nurseries

pytestmark = [pytest.mark.nodes, pytest.mark.torch]


class Case(NamedTuple):
    """One fault, where it strikes, and what must be said of it."""

    program: str
    fault: str
    who: int
    kind: str
    ranks: tuple[int, ...]
    says: str
    signal: int = 0


CASES = {
    "reader": Case("lm.py", "reader", 2, "rank_stuck_in_data", (2,), "token_pages"),
    "data_worker": Case("vision.py", "worker", 1, "rank_stuck_in_data", (1,), "fetch_remote"),
    "checkpoint_of_rank_0": Case("lm.py", "checkpoint", 0, "rank_stuck_in_checkpoint", (0,), "write_state"),
    "checkpoint_of_another": Case("lm.py", "checkpoint", 3, "rank_stuck_in_checkpoint", (3,), "write_state"),
    "lock": Case("lm.py", "lock", 1, "rank_stuck_on_lock", (1,), "refresh_vocabulary"),
    "lock_in_a_pair": Case("mesh.py", "pair_lock", 2, "rank_stuck_on_lock", (2,), "Mesh.forward"),
    "busy_loop": Case("lm.py", "busy", 3, "rank_stuck_in_code", (3,), "anneal"),
    "sleep": Case("lm.py", "nap", 0, "rank_stuck_in_code", (0,), "anneal"),
    "stopped": Case("lm.py", "none", 1, "rank_stopped", (1,), "stopped", signal.SIGSTOP),
    "collective_on_one_rank": Case("vision.py", "only_here", 0, "collective_mismatch", (0,), "share_histogram"),
    "fewer_batches": Case("vision.py", "fewer_batches", 3, "collective_mismatch", (3,), "on_fit_end"),
    "pair_disagrees": Case("mesh.py", "pair_disagrees", 1, "collective_mismatch", (0, 1), "reduce"),
    "both_receive": Case("mesh.py", "both_receive", 2, "p2p_deadlock", (2, 3), "recv"),
}


@pytest.fixture(scope="module")
def answers(nursery: Nurseries) -> Batches:
    """The answer about every case."""

    def start(name: str) -> FaultyJob:
        case = CASES[name]
        return nursery.launch(case.program, name, env={"HX_FAULT": case.fault, "HX_WHO": str(case.who)})

    def strike(name: str, job: FaultyJob) -> None:
        case = CASES[name]
        if case.signal:
            job.wait_for("moves")
            job.signal(case.who, signal.Signals(case.signal))
        else:
            job.wait_for("struck", case.who)

    return Batches(nursery.cluster, list(CASES), start, strike, at_once=5)


@pytest.mark.parametrize("name", CASES)
def test_kind_and_culprit(answers: Batches, name: str) -> None:
    answer, case = answers[name], CASES[name]
    assert answer.named() == ("hung", case.kind, list(case.ranks)), (answer.data["summary"], answer.took)
    first = answer.findings[0]
    assert first["nodes"] == sorted({f"node{1 + rank // 2}" for rank in case.ranks})
    assert case.says in first["summary"] + " ".join(line["text"] for line in first["evidence"])
    assert answer.status == 1
    assert answer.alarms == [case.kind], "one fault is told once"
