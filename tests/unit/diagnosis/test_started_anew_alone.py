"""A rank that died and was started anew by itself, while the others stay in their collectives."""

from __future__ import annotations

from tests.support.jobs import ALL_REDUCE, INIT, Sketch


def test_one_that_is_through_among_those_who_start_is_not_said_not_to_have_come() -> None:
    """Another rank took the job for larger: gloo connects the first to one another, and the last to none."""
    job = Sketch(stood_still=60.0)
    job.ranks().at(INIT)
    job.ranks(2).at(ALL_REDUCE)
    found = next(found for found in job.verdict().findings if found.kind == "init_hang")
    assert found.ranks == ()
    assert "rank 2 is through, the others are not" in found.summary
