"""A rank that takes part in no collective, and serves the others: a replay buffer, a parameter server."""

from __future__ import annotations

import pytest

from tests.support.jobs import ALL_REDUCE, BACKWARD, READING, Sketch, alarms, first, kinds

SERVES = ["serve buffer.py:56", "main buffer.py:110"]


def trained(*stack: str, syscall: str, waiting_on: str = "") -> Sketch:
    """Three ranks train, and wait for one another in each look; the fourth sleeps in this call in each."""
    job = Sketch()
    job.ranks().at(BACKWARD).pulse(switches=9, cores=0.03)
    job.ranks(3).at(list(stack), syscall=syscall, waiting_on=waiting_on).pulse(switches=7, cores=0.005)
    return job


@pytest.mark.parametrize("syscall", ["pselect6", "epoll_wait", "poll"])
def test_it_is_not_slow(syscall: str) -> None:
    assert alarms(trained(*SERVES, syscall=syscall).verdict()) == []


@pytest.mark.parametrize(
    ("stack", "syscall", "waiting_on"),
    [(READING, "read", "/data/shard"), (SERVES, "recvfrom", "tcp 10.0.0.9:443"), (SERVES, "poll", "tcp 10.0.0.9:443")],
)
def test_one_that_reads_or_asks_is(stack: list[str], syscall: str, waiting_on: str) -> None:
    assert "straggler_rank" in kinds(trained(*stack, syscall=syscall, waiting_on=waiting_on).verdict())


def test_where_the_others_stand_still_it_is_told_as_one_that_may_only_be_idle() -> None:
    job = Sketch(stood_still=30.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(3).at(SERVES, syscall="epoll_wait")
    found = first(job.verdict())
    assert (found.ranks, found.certainty) == ((3,), "possible")
    assert "waits for whoever asks it" in found.summary
    assert "a service that nobody asks is idle" in found.advice
