"""Causes of findings: found by what findings speak of, and the same as by comparing every pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hangtop.diagnosis.finding import LIKELY, Finding
from hangtop.diagnosis.tables.kinds import ROWS, Effects, Kind, kind_row
from hangtop.diagnosis.verdict.ranking import SEVERITIES, rank_findings

NAMES = st.lists(st.sampled_from(["node1:0", "node1:1", "node2:0"]), max_size=2, unique=True).map(tuple)


def findings_of(row: Kind) -> st.SearchStrategy[list[Finding]]:
    """Findings of kinds that explain one another, about a few things."""
    finding = st.builds(
        Finding,
        kind=st.sampled_from(sorted({row.name}.union(*(effects.kinds for effects in row.explains)))),
        severity=st.sampled_from(SEVERITIES),
        weight=st.sampled_from([0.5, 0.9]),
        summary=st.just("it is so"),
        ranks=st.lists(st.integers(0, 2), max_size=2, unique=True).map(tuple),
        nodes=st.lists(st.sampled_from(["node1", "node2"]), max_size=2, unique=True).map(tuple),
        gpus=NAMES,
        ports=NAMES,
    )
    return st.lists(finding, min_size=2, max_size=6)


def shares(row: Effects, cause: Finding, effect: Finding) -> bool:
    """They speak of the same thing."""
    fields = {"rank": "ranks", "node": "nodes", "gpu": "gpus", "port": "ports"}
    name = fields.get(row.where, "")
    return not name or bool(set(getattr(cause, name)) & set(getattr(effect, name)))


def explains(cause: Finding, effect: Finding) -> bool:
    """One row of the table at least says so, and the cause is as severe, or is something broken."""
    broken = kind_row(cause.kind).word == "at_risk" and cause.weight >= LIKELY
    as_severe = SEVERITIES.index(cause.severity) <= SEVERITIES.index(effect.severity)
    if cause.severity == "info" or not (as_severe or broken):
        return False
    rows = [effects for effects in kind_row(cause.kind).explains if effect.kind in effects.kinds]
    return any(shares(effects, cause, effect) for effects in rows)


def causes_of(effect: Finding, findings: Sequence[Finding]) -> list[Finding]:
    """All findings but itself that explain it."""
    return [other for other in findings if other is not effect and explains(other, effect)]


@settings(max_examples=50)
@given(st.sampled_from([row for row in ROWS if row.explains]).flatmap(findings_of))
def test_a_finding_has_a_cause_where_some_pair_of_the_table_gives_it_one(findings: list[Finding]) -> None:
    merged = rank_findings(findings)
    roots = [finding for finding in merged if not finding.cause]
    plain = [replace(finding, cause="") for finding in merged]
    for finding, bare in zip(merged, plain, strict=True):
        kinds = {other.kind for other in causes_of(bare, plain)}
        if finding.cause:
            assert finding.cause in kinds
        else:  # where all explain one another in a circle, one is accused all the same
            assert not kinds or roots == [finding]


def test_the_nearest_of_several_causes_is_named() -> None:
    hung = Finding("collective_stalled", "critical", 0.7, "all wait")
    lost = Finding("gpu_lost", "critical", 0.97, "GPU 3 is lost", ranks=(3,), nodes=("node1",), gpus=("node1:3",))
    killed = Finding("rank_killed", "critical", 0.6, "rank 5 was killed", ranks=(5,))
    found = {finding.kind: finding.cause for finding in rank_findings([hung, killed, lost])}
    assert found == {"gpu_lost": "", "rank_killed": "", "collective_stalled": "gpu_lost"}


def test_what_followed_a_finding_does_not_explain_it() -> None:
    timed_out = Finding("watchdog_timeout", "critical", 0.8, "rank 1 timed out", cause="rank_crashed")
    crashed = Finding("rank_crashed", "critical", 0.9, "rank 0 failed first", ranks=(0,))
    assert {f.kind: f.cause for f in rank_findings([timed_out, crashed])}["rank_crashed"] == ""


@pytest.mark.parametrize(
    ("cause", "effect"),
    [
        (Finding("nvlink_fabric_down", "warning", 0.8, "the fabric manager is down", nodes=("node1",)), "init_hang"),
        (Finding("ib_port_down", "warning", 0.7, "a port is down", nodes=("node1",)), "collective_stalled"),
        (Finding("gpu_lost", "critical", 0.93, "a GPU is lost", nodes=("node1",)), "job_stalled"),
    ],
    ids=lambda case: case.kind if isinstance(case, Finding) else case,
)
def test_what_is_broken_stands_before_the_hang_that_it_makes(cause: Finding, effect: str) -> None:
    first, second = rank_findings([Finding(effect, "critical", 0.9, "all wait"), cause])
    assert (first.kind, first.severity, first.cause) == (cause.kind, "critical", "")
    assert (second.kind, second.severity, second.cause) == (effect, "critical", cause.kind)
