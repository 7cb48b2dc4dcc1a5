"""Of independent pipelines or replicas one stands still while the other goes on: steps of that one prove nothing."""

from __future__ import annotations

import pytest

from hangtop.diagnosis.job import JobMotion
from tests.support.jobs import NOW, READING, Sketch, c10d, first

MOVING = JobMotion(True, "2 ranks, steps 1,204 to 1,219 in 4 s", 1219, NOW - 0.2)
STEP = ["mix model.py:31", "train_step loop.py:38", "main loop.py:90"]
RECV, SEND = c10d("recv", "stage pipe.py:7"), c10d("send", "stage pipe.py:9")
REDUCE = c10d("all_reduce", "sync dp.py:12", "main loop.py:90")


def replicas(moving: JobMotion = MOVING) -> Sketch:
    """Ranks 2 and 3 go through all_reduce and compute; 0 and 1 are in the same all_reduce of a group of theirs."""
    job = Sketch(motion=moving, stood_still=0.3, span=20.0, watched=20.0, patience=10.0)
    job.ranks(0, 1).at(REDUCE, arguments={"group_given": "yes"})
    job.ranks(2, 3).at(REDUCE, STEP, arguments={"group_given": "yes"}).pulse(cores=0.4, switches=40.0)
    return job


def test_a_replica_that_stands_still_beside_one_that_goes_on_is_hung() -> None:
    verdict = replicas().verdict()
    assert (verdict.outcome, first(verdict).kind, first(verdict).ranks) == ("hung", "collective_stalled", (0, 1))


def test_the_rank_that_holds_up_its_replica_is_named() -> None:
    job = replicas()
    job.ranks(1).at(READING, syscall="read", waiting_on="pipe")
    verdict = job.verdict()
    assert (verdict.outcome, first(verdict).kind, first(verdict).ranks) == ("hung", "rank_stuck_in_data", (1,))


def test_a_pipeline_that_stands_still_beside_one_that_goes_on_is_hung() -> None:
    job = replicas()
    job.ranks(0).at(RECV, arguments={"src": "1"})
    job.ranks(1).at(READING, syscall="read", waiting_on="pipe")
    job.ranks(2).at(RECV, STEP, arguments={"src": "3"})
    job.ranks(3).at(SEND, STEP, arguments={"dst": "2"})
    verdict = job.verdict()
    assert (verdict.outcome, first(verdict).kind, first(verdict).ranks) == ("hung", "rank_stuck_in_data", (1,))


@pytest.mark.parametrize("switches", [4.0, 40.0])
def test_ranks_whose_waits_end_and_begin_again_stand_nowhere(switches: float) -> None:
    job = replicas()
    job.ranks(0, 1).pulse(cores=0.01, switches=switches)
    assert job.verdict().outcome == "healthy"


def test_ranks_that_wait_for_one_that_evaluates_in_a_loop_that_counts_wait_for_it() -> None:
    """Its loop logs batches: nobody waits for others than it."""
    job = replicas()
    job.ranks(0, 1, 3).at(REDUCE, arguments={"group_given": "yes"}).pulse()
    job.ranks(2).at(
        ["evaluate loop.py:60", "main loop.py:95"], ["forward m.py:6", "evaluate loop.py:61", "main loop.py:95"]
    )
    job.ranks(2).pulse(cores=0.9, switches=40.0)
    verdict = job.verdict()
    assert (verdict.outcome, first(verdict).ranks) == ("waiting", (2,)), verdict.summary


def test_workers_that_nap_at_one_line_beside_their_server_stand_nowhere() -> None:
    """Each wakes some times a second: neither the sleep of most ranks nor the server's receive is one and the same."""
    job = Sketch(motion=MOVING, stood_still=0.6, patience=4.0)
    job.ranks().at(["gradient hogwild.py:37", "main hogwild.py:60"], syscall="clock_nanosleep").pulse(switches=8.0)
    job.ranks(0).at(c10d("recv", "forever hogwild.py:20")).pulse(switches=15.0)
    assert job.verdict().outcome == "healthy"
