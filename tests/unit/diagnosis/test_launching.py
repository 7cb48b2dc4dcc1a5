"""Launchers that have started no rank."""

from __future__ import annotations

from collectors.samples.ranks import IdleLauncher
from hangtop.diagnosis.finding import Verdict
from tests.support.jobs import ALL_REDUCE, NOW, Sketch, first

COMMAND = "torchrun --nproc-per-node 2 --nnodes 3 --rdzv-backend c10d train.py"


def agents(*ages: float, command: str = COMMAND) -> Sketch:
    """A job without ranks on two nodes, on which torchrun has run for so long."""
    job = Sketch()
    job.by_number.clear()
    for index, age in enumerate(ages, 1):
        job.node(f"node{index}", launchers=(IdleLauncher(70 + index, NOW - age, command, True),), link="live")
    return job


def told(job: Sketch) -> tuple[str, str]:
    verdict: Verdict = job.verdict()
    return verdict.outcome, verdict.summary


def test_after_two_minutes_it_is_a_hang() -> None:
    verdict = agents(400.0, 180.0).verdict()
    found = first(verdict)
    assert (verdict.outcome, found.kind, found.nodes, found.ranks) == ("hung", "init_hang", ("node1", "node2"), ())
    assert found.summary.endswith("for 3 min: it waits for 3 nodes and runs on 2")
    assert found.evidence[0].source == "process 71 on node1"
    assert COMMAND in found.evidence[0].text


def test_where_ranks_were_seen_or_nothing_was_launched_it_says_nothing() -> None:
    assert told(agents())[0] == "idle"
    job = Sketch(motion=agents().motion)
    job.ranks().at(ALL_REDUCE)
    job.node("node1", launchers=(IdleLauncher(70, NOW - 500.0, COMMAND, True),))
    assert "torchrun" not in job.verdict().summary
    assert (
        "torchrun" not in told(agents(500.0).says("python.exception", 0, ago=5.0, type="KeyError", signature="user"))[1]
    )
