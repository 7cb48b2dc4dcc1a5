"""A probe that somebody asked for settles a wait in which no rank is odd, and never outranks a rank that is."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from collectors.samples.probes import ProbePair, ProbeRank, ProbeReport
from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, NOW, Sketch, first

NODES = ("node1", "node2", "node3", "node4")


def report(slow: str = "", age: float = 30.0) -> ProbeReport:
    """Four nodes, one of them slow with all others."""
    pairs = [ProbePair(a, b, 0.05 if slow in (a, b) else 1.0, 0.0, "") for a, b in combinations(NODES, 2)]
    ranks = [ProbeRank(i, name, "done", "") for i, name in enumerate(NODES)]
    return ProbeReport("gloo", 4, NOW - age, 5.0, "done", "", ranks, [], pairs, {})


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
