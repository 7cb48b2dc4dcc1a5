"""Findings from what ranks tell by their pages, without any stack."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.samples.inside import InsideFinding, InsideResult
from hangtop.diagnosis.job import JobMotion
from tests.support.jobs import MOVING, NOW, Sketch, alarms, first

STILL = JobMotion(False)


def standing(world: int = 8) -> Sketch:
    """A job in which nothing has moved for 41 s, and nobody could look into it."""
    return Sketch(world=world, looks=5, stood_still=41.0, watched=60.0, patience=20.0, motion=STILL)


def test_a_rank_that_is_steps_behind_in_data() -> None:
    job = standing()
    job.ranks().tells(120, "backward", ago=40.0)
    job.ranks(5).tells(117, "data", ago=41.0)
    found = first(job.verdict())
    assert (found.kind, found.ranks, found.nodes) == ("rank_stuck_in_data", (5,), ("node2",))
    assert "rank 5 on node2 is 3 steps behind, in data for 41 s" in found.summary
    assert found.evidence[0].text == "step 117 done"


def test_the_last_one_within_a_step() -> None:
    job = standing()
    job.ranks().tells(120, "backward", ago=40.0)
    job.ranks(2).tells(120, "forward", ago=41.0)
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("rank_stuck_in_code", (2,))
    assert "the last in step 121, in forward for 41 s" in found.summary


def test_one_that_saves_is_given_a_minute() -> None:
    job = standing()
    job.ranks().tells(120, "backward", ago=40.0)
    job.ranks(0).tells(120, "checkpoint", ago=41.0)
    assert "rank_stuck_in_checkpoint" not in alarms(job.verdict())
    job.ranks().tells(120, "backward", ago=90.0)
    job.ranks(0).tells(120, "checkpoint", ago=91.0)
    assert first(job.verdict()).kind == "rank_stuck_in_checkpoint"


@pytest.mark.parametrize("busy", ["all at one point", "half behind", "moving", "one tells nothing", "just now"])
def test_who_is_not_behind(busy: str) -> None:
    job = standing()
    job.ranks().tells(120, "backward", ago=40.0)
    if busy == "half behind":
        job.ranks(0, 1, 2, 3).tells(119, "backward", ago=40.0)
    elif busy == "moving":
        job.motion, job.stood_still = MOVING, 0.0
        job.ranks(5).tells(119, "data", ago=0.5)
    elif busy == "one tells nothing":
        job.own(3).inside = None
    elif busy == "just now":
        job.ranks().tells(120, "backward", ago=1.0)
        job.ranks(5).tells(119, "data", ago=1.0)
    assert not {"rank_stuck_in_data", "rank_stuck_in_code", "straggler_rank"} & set(alarms(job.verdict()))


def test_ranks_of_a_silent_node_are_not_judged() -> None:
    job = standing()
    job.ranks().tells(120, "backward", ago=40.0)
    job.ranks(5).tells(117, "data", ago=41.0)
    job.node("node2", link="lost")
    assert "rank_stuck_in_data" not in alarms(job.verdict())


def result(check: str = "same", ago: float = 3.0, **fields: Any) -> InsideResult:
    finding = InsideFinding(
        "replicas_differ", "critical", "fc.weight differs on rank 2", [2], ["1 of 64 elements", "1.0 and 1.0001"], "x"
    )
    given = InsideResult(1000, check, NOW - ago, [0, 1, 2, 3], False, 0.1, "1 differs", [finding])
    return given._replace(**fields)


def test_what_a_check_found_is_told_once_for_all_ranks() -> None:
    job = Sketch(world=4, motion=MOVING, stood_still=0.0)
    job.ranks().tells(10, "forward", results=[result()])
    verdict = job.verdict()
    found = [one for one in verdict.findings if one.kind == "replicas_differ"]
    assert [(one.summary, one.ranks, one.certainty) for one in found] == [
        ("fc.weight differs on rank 2", (2,), "proven")
    ]
    assert verdict.outcome == "at_risk"
    assert [line.text for line in found[0].evidence] == [
        "1 of 64 elements", "1.0 and 1.0001", "told by ranks 0-3",
    ]  # fmt: skip


def test_a_later_check_that_finds_nothing_takes_it_back() -> None:
    job = Sketch(world=4, motion=MOVING, stood_still=0.0)
    job.ranks().tells(10, "forward", results=[result(ago=1.0, ok=True, findings=[])])
    job.ranks(3).tells(10, "forward", results=[result(ago=60.0)])
    assert alarms(job.verdict()) == []


def test_a_kind_that_nobody_knows_is_left_out() -> None:
    job = Sketch(world=4, motion=MOVING, stood_still=0.0)
    foreign = InsideFinding("all_is_lost", "critical", "x", [], [], "")
    job.ranks().tells(10, "forward", results=[result(findings=[foreign])])
    assert alarms(job.verdict()) == []
