"""A probe that somebody asked for settles a wait in which no rank is odd, and never outranks a rank that is."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from collectors.samples.probes import ProbePair, ProbeRank, ProbeReport
from collectors.samples.ranks import InsideFinding, InsideResult
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, MOVING, NOW, Sketch, alarms, first

NODES = ("node1", "node2", "node3", "node4")


def report(slow: str = "", age: float = 30.0) -> ProbeReport:
    """Four nodes, one of them slow with all others."""
    pairs = [ProbePair(a, b, 0.05 if slow in (a, b) else 1.0, 0.0, "") for a, b in combinations(NODES, 2)]
    ranks = [ProbeRank(i, name, "done", "") for i, name in enumerate(NODES)]
    return ProbeReport("gloo", 4, NOW - age, 5.0, "", ranks, [], pairs, {})


def verdict(job: Sketch, *reports: ProbeReport) -> Verdict:
    return diagnose(replace(job.job(), probed=reports))


def stalled() -> Sketch:
    job = Sketch(world=8, nodes=4)
    job.ranks().at(ALL_REDUCE)
    return job


def test_a_slow_node_is_the_root_of_a_stall() -> None:
    found = verdict(stalled(), report("node3"))
    assert (first(found).kind, first(found).nodes) == ("bandwidth_low", ("node3",))
    assert found.outcome == "hung"
    assert {f.kind: f.cause for f in found.findings}["collective_stalled"] == "bandwidth_low"


@pytest.mark.parametrize(
    "reports",
    [(), (report(),), (report("node3", age=3600.0),),
     (report("node3", age=60.0), report(age=30.0))],
)  # fmt: skip
def test_without_a_fresh_measurement_that_says_so_the_stall_stays(reports: tuple[ProbeReport, ...]) -> None:
    assert first(verdict(stalled(), *reports)).kind == "collective_stalled"


# --- what ranks tell by their pages -------------------------------------------------------------------------------


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
