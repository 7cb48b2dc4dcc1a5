"""Ranks that the kernel does not let run, and ranks that cannot be looked into."""

from __future__ import annotations

import pytest

from tests.support.jobs import ALL_REDUCE, COMPUTING, READING, Sketch, first


def test_stopped_by_a_debugger() -> None:
    job = Sketch()
    job.span = job.watched = 12.0
    job.ranks(0, 1, 2).at(ALL_REDUCE)
    job.ranks(3).at(COMPUTING, state="t")
    assert "a debugger traces it" in first(job.verdict()).summary
    job.ranks(3).at(COMPUTING, state="t", waiting_on="gdb (pid 4711)")
    found = first(job.verdict())
    assert "gdb (pid 4711) traces it" in found.summary
    assert found.advice.startswith("Detach the tracer")


@pytest.mark.parametrize(("state", "wchan"), [("D", "__refrigerator"), ("S", "do_freezer_trap.isra.0")])
def test_frozen_by_a_control_group(state: str, wchan: str) -> None:
    """By version 1, and by version 2, of which its state tells nothing: the storage is not to blame, nor its code."""
    job = Sketch()
    job.ranks(0, 1, 2).at(ALL_REDUCE)
    job.ranks(3).at(READING, state=state).pulse(wchan=wchan)
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("rank_stopped", (3,))
    assert "is frozen and holds up 3 others: by its control group" in found.summary
    assert "/proc/1003/cgroup" in found.advice
    assert not found.next, "no signal thaws it"


@pytest.mark.parametrize(
    ("wchan", "soon"), [("folio_wait_bit_common", "waiting"), ("request_wait_answer", "hung")], ids=["a disk", "FUSE"]
)
def test_a_read_that_does_not_return_is_told_at_once_beside_ranks_that_spin(wchan: str, soon: str) -> None:
    for seconds, outcome in ((7.0, soon), (70.0, "hung")):
        job = Sketch(span=seconds, watched=seconds, stood_still=seconds, looks=5)
        job.ranks().at(ALL_REDUCE, state="R").pulse(cores=1.0)
        job.ranks(2).at(READING, state="D").pulse(wchan=wchan)
        verdict = job.verdict()
        assert (verdict.outcome, first(verdict).ranks) == (outcome, (2,)), verdict.summary
