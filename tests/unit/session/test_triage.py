"""When a verdict is sure before the watch is over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from collectors.samples.stream import SourceState
from hangtop.diagnosis.node import Node
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.diagnosis.waits.job_status import status_of_job
from hangtop.session.watching.triage import culprit_named, undecided
from tests.support.jobs import ALL_REDUCE, BARRIER, COMPUTING, MOVING, READING, Sketch, first


def test_a_culprit_in_its_program_is_named_at_once() -> None:
    job = Sketch()
    job.ranks().at(ALL_REDUCE)
    assert not culprit_named(job.verdict()), "no rank is odd"
    assert not culprit_named(Sketch(motion=MOVING).verdict())
    job.ranks(2).at(READING)
    assert first(job.verdict()).kind == "rank_stuck_in_data"
    assert culprit_named(job.verdict())


def test_of_two_ranks_either_of_which_may_be_the_odd_one_neither_is_named() -> None:
    """A third one was met on its way: another look may know where it stays."""
    job = Sketch()
    job.ranks(0, 1).at(ALL_REDUCE)
    job.ranks(2, 3).at(BARRIER)
    verdict = job.verdict()
    assert (verdict.outcome, first(verdict).kind, first(verdict).ranks) == ("hung", "collective_mismatch", (0, 1, 2, 3))
    assert not culprit_named(verdict)
    job.ranks(2).at(ALL_REDUCE)
    assert first(job.verdict()).ranks == (3,)
    assert culprit_named(job.verdict())


def test_a_source_has_said_its_first_word_once_it_tells_what_it_sees_or_why_nothing() -> None:
    node = Node("node1")
    assert not node.has_heard("kernel")
    node.sources = {**node.sources, "kernel": SourceState("kernel", "denied", "dmesg_restrict", 1.0)}
    assert node.has_heard("kernel")


@pytest.mark.parametrize(("held", "more"), [(3.0, True), (30.0, False)])
def test_a_wait_that_began_during_the_watch_may_be_a_slow_rank_and_is_watched_on(held: float, *, more: bool) -> None:
    job = Sketch(stood_still=held, usual_pause=2.0, watched=9.0, span=held, looks=3)
    job.ranks().at(ALL_REDUCE).pulse(cores=0.0)
    job.ranks(2).at(COMPUTING).pulse(cores=1.0)
    made = job.job()
    session: Any = SimpleNamespace(
        living=lambda: made.ranks, state=SimpleNamespace(stacks=[*zip(made.stack_nodes, made.stacks, strict=True)]),
        options=SimpleNamespace(read_only=True),
    )  # fmt: skip
    verdict = diagnose(made)
    assert verdict.outcome == "waiting"
    assert undecided(session, verdict, status_of_job(made), past=9.0, watch=4.0) is more


def test_who_crashed_is_told_at_once_too() -> None:
    crashed = Sketch()
    crashed.ranks(0, 1, 3).at(ALL_REDUCE)
    crashed.ranks(2).gone(5)
    crashed.says("python.exception", 2, ago=6.0, type="ValueError", message="bad shard", text="ValueError: bad shard")
    verdict = crashed.verdict()
    assert (first(verdict).kind, verdict.outcome) == ("rank_crashed", "crashed")
    assert culprit_named(verdict)


def test_what_victims_say_is_not_sure_before_the_rank_that_they_lost_is_known() -> None:
    crashed = Sketch()
    crashed.ranks().at(ALL_REDUCE).unread("torn")
    for rank in (0, 2):
        crashed.says("gloo.closed", rank, ago=4.0, peer="[10.0.0.1]:4000", text="Connection closed by peer")
    verdict = crashed.verdict()
    assert (verdict.outcome, verdict.findings) == ("unknown", ())
    assert not culprit_named(verdict)
    crashed.ranks(1).gone(3)
    assert (first(crashed.verdict()).kind, first(crashed.verdict()).ranks) == ("rank_killed", (1,))
