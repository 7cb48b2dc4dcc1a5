"""Findings from what ranks tell by their pages, without any stack."""

from __future__ import annotations

from typing import Any

from collectors.samples.inside import InsideFinding, InsideResult
from tests.support.jobs import MOVING, NOW, Sketch, alarms


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
    assert [line.text for line in found[0].evidence] == ["1 of 64 elements", "1.0 and 1.0001"]


def test_a_later_check_that_finds_nothing_takes_it_back() -> None:
    job = Sketch(world=4, motion=MOVING, stood_still=0.0)
    job.ranks().tells(10, "forward", results=[result(ago=1.0, ok=True, findings=[])])
    job.ranks(3).tells(10, "forward", results=[result(ago=60.0)])
    assert alarms(job.verdict()) == []
