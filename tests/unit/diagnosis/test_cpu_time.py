"""cpu_starved: a rank that does not get its CPU while the others do."""

from __future__ import annotations

import pytest

from collectors.samples.stream import SourceState
from hangtop.diagnosis.job import JobMotion
from tests.support.jobs import COMPUTING, NOW, Sketch, alarms, first


def job(*, state: str = "ok", link: str = "live") -> Sketch:
    """Four ranks that train; the source ``cpus`` of their nodes answers, or is in another state."""
    made = Sketch(patience=60.0, watched=60.0)
    made.ranks().at(COMPUTING, state="R").pulse(cores=0.5, switches=40.0).waits_for_cpu(0)
    made.motion = JobMotion(moving=True, proof="steps 4 to 9 in 5 s", last_step=9, step_s=1.0)
    for number in (1, 2):
        made.node(f"node{number}", link=link, sources={"ranks": SourceState("ranks", state, "", NOW - 60.0)})
    return made


def test_ranks_that_are_bound_to_one_cpu() -> None:
    told = job()
    told.ranks(2, 3).waits_for_cpu(50, allowed="3", nice=19)
    found = first(told.verdict())
    assert (found.kind, found.ranks, found.nodes) == ("cpu_starved", (2, 3), ("node2",))
    assert "may run on CPUs 3, nice 19" in found.summary


@pytest.mark.parametrize("shares", [(60, 60, 60, 60), (60, 60, 60, 0), (20, 20, 20, 40)])
def test_ranks_that_wait_like_the_others_are_not_told_apart(shares: tuple[int, ...]) -> None:
    told = job()
    for rank, share in enumerate(shares):
        told.ranks(rank).waits_for_cpu(share, allowed="3")
    assert alarms(told.verdict()) == []


@pytest.mark.parametrize(("state", "link"), [("absent", "live"), ("ok", "lost")])
def test_kernels_that_do_not_count_and_nodes_that_are_gone_say_nothing(state: str, link: str) -> None:
    told = job(state=state, link=link)
    told.ranks(3).waits_for_cpu(60, allowed="3")
    assert "cpu_starved" not in alarms(told.verdict())


def test_a_machine_that_is_busy_everywhere_is_no_reason() -> None:
    told = job()
    told.ranks(2).waits_for_cpu(60, allowed="0-63")
    assert alarms(told.verdict()) == []


def test_nothing_is_compared_with_ranks_whose_first_window_is_not_over() -> None:
    told = job()
    told.ranks(2, 3).waits_for_cpu(50, nice=10)
    for rank in (0, 1):
        told.own(rank).waited = None
    assert "cpu_starved" not in alarms(told.verdict())
