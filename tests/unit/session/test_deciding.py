"""When a verdict is sure before the watch is over."""

from __future__ import annotations

from hangtop.session.deciding import proven
from tests.support.jobs import ALL_REDUCE, DESTROY, MOVING, READING, Sketch, first


def held_up_by(stack: list[str]) -> Sketch:
    job = Sketch()
    job.ranks().at(ALL_REDUCE)
    job.ranks(2).at(stack)
    return job


def test_a_culprit_in_its_program_is_named_at_once() -> None:
    verdict = held_up_by(READING).verdict()
    assert first(verdict).kind == "rank_stuck_in_data"
    assert proven(verdict, whole=False)


def test_of_one_that_shuts_down_its_log_may_say_why() -> None:
    verdict = held_up_by(DESTROY).verdict()
    assert first(verdict).kind == "rank_left_early"
    assert not proven(verdict, whole=False)
    assert proven(verdict, whole=True)


def test_where_nobody_is_named_nothing_is_proven() -> None:
    job = Sketch()
    job.ranks().at(ALL_REDUCE)
    assert not proven(job.verdict(), whole=True)
    assert not proven(Sketch(motion=MOVING).verdict(), whole=True)
