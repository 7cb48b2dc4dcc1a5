"""Jobs that stand still with nobody to blame: when that is an alarm, and when a step may just be long."""

from __future__ import annotations

from tests.support.jobs import ALL_REDUCE, BACKWARD, Sketch, alarms, first, gpu, kinds


def all_at(line: str, syscall: str, still: float) -> Sketch:
    """Four ranks at one line of their own code, blocked in one call, their GPUs empty, for so many seconds."""
    job = Sketch(stood_still=still)
    job.ranks().at([line, "main train.py:9"], state="S", syscall=syscall)
    job.ranks().pulse(cores=0.0, switches=0.5)
    for number in (1, 2):
        first = 1000 + 2 * (number - 1)
        empty = [{"utilization": 0, "power": 75.0}] * 4
        job.node(f"node{number}", gpus=tuple(gpu(i, empty, pids=[first + i]) for i in range(2)))
    return job


def test_ranks_that_all_sleep_in_their_own_code_are_given_the_time_of_a_long_step() -> None:
    """Between micro-batches, or until a service answers: each wakes by itself."""
    sleeping = "accumulate train.py:60", "clock_nanosleep"
    assert alarms(all_at(*sleeping, still=30.0).verdict()) == []
    assert kinds(all_at(*sleeping, still=70.0).verdict()) == ["job_stalled"]


def test_what_all_wait_in_is_not_stalled_before_the_last_of_them_has_been_there_for_as_long() -> None:
    """It slept between two attempts to read, and has just come: the others waited for it, and wait no longer."""
    retry, came = ["retry shards.py:46", "main train.py:9"], 3
    job = Sketch(looks=8, span=14.0, patience=10.0, watched=30.0, stood_still=15.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(3).at(*[retry] * 6, *[ALL_REDUCE] * 2)
    assert alarms(job.verdict()) == []
    job.ranks(3).at(*[retry] * came, *[ALL_REDUCE] * (8 - came))
    assert alarms(job.verdict()) == [], "eight seconds are fewer than ten"
    job.patience = 5.0
    assert kinds(job.verdict()) == ["collective_stalled"]
    job.patience = 10.0
    job.ranks(3).at(ALL_REDUCE)
    assert kinds(job.verdict()) == ["collective_stalled"], "it has been there all along"


def test_a_rank_that_woke_where_it_waits_elsewhere_is_the_odd_one() -> None:
    """It has one batch more: its backward pass waits, and wakes a little, while the others are at the end."""
    job = Sketch(stood_still=4.0, span=2.5)
    job.ranks().at(ALL_REDUCE).pulse(cores=0.1)
    job.ranks(2).at(BACKWARD).pulse(cores=0.01, switches=2.0)
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("collective_mismatch", (2,))


def test_the_only_rank_of_a_job_is_named_and_nobody_is_told_how_to_name_it() -> None:
    job = Sketch(world=1, nodes=1, stood_still=70.0)
    job.ranks().at(["fill_buffer store.py:60", "main train.py:9"], state="S", syscall="recvfrom")
    job.ranks().pulse(cores=0.0, switches=0.5)
    (found,) = (finding for finding in job.verdict().findings if finding.kind == "job_stalled")
    assert (found.ranks, found.nodes) == ((0,), ("node1",))
    assert "would name the rank" not in found.advice
