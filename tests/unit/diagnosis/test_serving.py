"""A rank that takes part in no collective, and serves the others: a replay buffer, a parameter server."""

from __future__ import annotations

import pytest

from tests.support.jobs import ALL_REDUCE, BACKWARD, READING, Sketch, alarms, first, kinds
from tests.support.stacks import STDLIB

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


@pytest.mark.parametrize(("asked", "slow"), [(True, False), (False, True)])
def test_the_engine_that_generates_what_the_others_asked_for_is_no_slow_one_of_them(asked: bool, slow: bool) -> None:
    server = [f"BaseServer.process_request {STDLIB}/socketserver.py:349", "serve engine.py:44"]
    stack = ["generate engine.py:32", *(server if asked else ()), "main engine.py:110"]
    job = Sketch()
    job.ranks().at(BACKWARD).pulse(switches=9, cores=0.03)
    job.ranks(3).at(stack, state="R", syscall="running").pulse(switches=7, cores=0.9)
    assert ("straggler_rank" in kinds(job.verdict())) is slow
    between = [f"BaseServer.serve_forever {STDLIB}/socketserver.py:235", "serve engine.py:44", "main engine.py:110"]
    job.ranks(3).at(between if asked else stack, stack, BACKWARD, stack, stack, state="R", syscall="running")
    assert ("straggler_rank" in kinds(job.verdict())) is slow


SERVE_FOREVER = ["BaseServer.serve_forever /usr/lib/python3.11/socketserver.py:233", *SERVES]
"""With the selector's frame further in, as its looks show it."""
SELECTS = ["_PollLikeSelector.select /usr/lib/python3.11/selectors.py:415", *SERVE_FOREVER]


def test_it_is_not_slow_in_a_librarys_loop_either() -> None:
    assert alarms(trained(*SELECTS, syscall="poll").verdict()) == []


def test_a_librarys_loop_that_serves_is_idle_while_nobody_asks() -> None:
    job = Sketch(stood_still=30.0, span=30.0, watched=30.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(0).at(SELECTS, syscall="poll")
    verdict = job.verdict()
    assert alarms(verdict) == []
    assert (first(verdict).kind, first(verdict).ranks) == ("waiting", (0,))


def test_a_request_that_it_is_stuck_in_is_told() -> None:
    job = Sketch(stood_still=30.0, span=30.0, watched=30.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(0).at(["Handler.do_POST serve.py:12", *SERVE_FOREVER], syscall="futex")
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("rank_stuck_on_lock", (0,))


def test_while_another_rank_works_or_is_stuck_it_waits_for_that_one() -> None:
    """Rollouts are asked for over a queue of messages: who asked sleeps until they come."""
    job = Sketch(stood_still=30.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(0).at(SERVES, syscall="poll")
    job.ranks(3).at(["generate engine.py:19", "main engine.py:40"], syscall="futex")
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("rank_stuck_on_lock", (3,))
    assert all(0 not in other.ranks for other in job.verdict().findings)

    at_work = ["forward /env/site-packages/transformers/generation/utils.py:7", "main engine.py:40"]
    job.ranks(3).at(at_work, ["sample engine.py:20", "main engine.py:40"], state="R", syscall="none").pulse(cores=1.0)
    assert alarms(job.verdict()) == []
    assert first(job.verdict()).ranks == (3,)
