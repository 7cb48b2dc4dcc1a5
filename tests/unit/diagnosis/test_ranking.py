"""Findings that say the same are one, and causes stand before what they explain."""

from __future__ import annotations

from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.verdict.ranking import rank_findings

SEEN = (Evidence(Observer.STACKS, "py-spy rank 1", 1.0, "T"), Evidence(Observer.PROCESS, "/proc/7", 1.0, "T"))


def test_two_sources_of_one_thing_are_one_finding_and_surer() -> None:
    one = Finding("rank_stopped", "critical", 0.8, "a", ranks=(1,), evidence=SEEN[:1])
    two = Finding("rank_stopped", "critical", 0.6, "b", ranks=(1,), evidence=SEEN[1:])
    (merged,) = rank_findings([two, one])
    assert (merged.summary, merged.evidence, merged.weight > 0.8) == ("a", SEEN, True)


def test_the_nearest_of_several_causes_is_named() -> None:
    hung = Finding("collective_stalled", "critical", 0.7, "all wait")
    lost = Finding("gpu_lost", "critical", 0.97, "GPU 3 is lost", ranks=(3,), nodes=("node1",), gpus=("node1:3",))
    killed = Finding("rank_killed", "critical", 0.6, "rank 5 was killed", ranks=(5,))
    found = {finding.kind: finding.cause for finding in rank_findings([hung, killed, lost])}
    assert found == {"gpu_lost": "", "rank_killed": "", "collective_stalled": "gpu_lost"}


def test_of_findings_that_explain_each_other_the_nearest_is_a_root_beside_other_roots() -> None:
    crashed = Finding("rank_crashed", "critical", 0.9, "rank 3 failed first", ranks=(3,))
    timed_out = Finding("watchdog_timeout", "critical", 0.95, "ranks 0-2 timed out", ranks=(0, 1, 2))
    port = Finding("ib_port_errors", "warning", 0.6, "a port reported an error", ports=("node1:mlx5_0/1",))
    found = rank_findings([timed_out, port, crashed])
    assert [(f.kind, f.cause) for f in found] == [
        ("rank_crashed", ""), ("ib_port_errors", ""), ("watchdog_timeout", "rank_crashed")
    ]  # fmt: skip


def test_what_is_broken_stands_before_the_hang_that_it_makes() -> None:
    cause = Finding("nvlink_fabric_down", "warning", 0.8, "the fabric manager is down", nodes=("node1",))
    first, second = rank_findings([Finding("init_hang", "critical", 0.9, "all wait"), cause])
    assert (first.kind, first.severity, first.cause) == (cause.kind, "critical", "")
    assert (second.kind, second.severity, second.cause) == ("init_hang", "critical", cause.kind)
