"""Who comes late to a hang: a wait that spins is seen from then on only; how long a thread slept, the kernel knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.diagnosis.waits.native import native_wanted
from tests.support.jobs import NOW, READING, Sketch, first, gpu, kinds

SPIN = {"utilization": 100, "power": 120.0}
EMPTY = {"utilization": 0, "power": 75.0}
SYNCHRONIZE = [
    "synchronize /env/site-packages/torch/cuda/__init__.py:985",
    "log_metrics train.py:85",
    "main train.py:9",
]


NAP = ["throttle train.py:71", "main train.py:9"]
OWN_LINE = ["train_step train.py:60", "main train.py:9"]


def slept(
    seconds: float,
    asleep: float,
    *,
    cores: float = 0.0,
    others: Sequence[str] = SYNCHRONIZE,
    own: Sequence[str] = READING,
    syscall: str = "read",
    on: str = "",
) -> Job:
    """Rank 1 reads and has slept so long, as its kernel says; three ranks spin, and were seen to for some seconds."""
    job = Sketch(patience=4.0, span=seconds, watched=seconds, stood_still=seconds)
    job.ranks().at(others, state="R", syscall="running").pulse(cores=1.0)
    job.ranks(1).at(own, syscall=syscall, waiting_on=on).pulse(cores=cores)
    rows = (SPIN, EMPTY), (SPIN, SPIN)
    for number, row_of in enumerate(rows, 1):
        pids = [1000 + 2 * (number - 1) + i for i in range(2)]
        job.node(f"node{number}", gpus=tuple(gpu(i, [row] * 4, pids=[pids[i]]) for i, row in enumerate(row_of)))
    made = job.job()
    sleeper = made.ranks[1]
    looks = tuple(look._replace(value=look.value._replace(idle_since=NOW - asleep)) for look in sleeper.looks)
    ranks = tuple(replace(rank, looks=looks) if rank is sleeper else rank for rank in made.ranks)
    return replace(made, ranks=ranks)


def seen_for(seconds: float, asleep: float, *, cores: float = 0.0) -> Verdict:
    """What is said of such a job."""
    return diagnose(slept(seconds, asleep, cores=cores))


def test_that_a_job_stands_still_is_seen_sooner_where_a_rank_has_slept_for_long() -> None:
    assert native_wanted(slept(1.0, asleep=20.0, others=OWN_LINE)) == (0,)
    assert native_wanted(slept(1.0, asleep=1.0, others=OWN_LINE)) == ()
    assert native_wanted(slept(2.0, asleep=1.0, others=OWN_LINE)) == (0,)


def test_a_rank_that_slept_for_the_whole_patience_needs_to_be_watched_for_a_part_of_it() -> None:
    verdict = seen_for(2.0, asleep=20.0)
    found = first(verdict)
    assert (verdict.outcome, found.kind, found.ranks) == ("hung", "rank_stuck_in_data", (1,))
    assert any("has not run for 20 s" in line.text for line in found.evidence)


@pytest.mark.parametrize(("seconds", "asleep"), [(2.0, 3.0), (1.0, 20.0), (2.0, 0.0)])
def test_a_shorter_sleep_or_a_shorter_look_is_no_hang_yet(seconds: float, asleep: float) -> None:
    verdict = seen_for(seconds, asleep)
    assert "rank_stuck_in_data" not in kinds(verdict)
    assert verdict.outcome != "hung"


def test_who_computes_does_not_sleep() -> None:
    assert seen_for(2.0, asleep=20.0, cores=0.6).outcome != "hung"


@pytest.mark.parametrize(("asleep", "hung"), [(15.0, False), (24.0, True)])
def test_a_sleep_ends_by_itself_unless_it_lasts(asleep: float, hung: bool) -> None:
    verdict = diagnose(slept(4.0, asleep=asleep, own=NAP, syscall="clock_nanosleep"))
    assert (verdict.outcome == "hung") is hung
    if hung:
        assert (verdict.findings[0].ranks, verdict.findings[0].certainty) == ((1,), "possible")
        assert "asleep for a time of its own" in verdict.summary


@pytest.mark.parametrize(("seconds", "told"), [(4.0, None), (15.0, None), (25.0, "likely"), (65.0, "proven")])
def test_what_looks_at_a_flag_again_and_again_may_see_it_yet(seconds: float, told: str | None) -> None:
    """Somebody outside of the job is to set it, write the file, or free the lock."""
    verdict = diagnose(slept(seconds, asleep=0.1, own=NAP, syscall="clock_nanosleep"))
    assert (verdict.findings[0].certainty if verdict.outcome == "hung" else None) == told


@pytest.mark.parametrize(("asleep", "hung"), [(12.0, False), (0.1, True)])
def test_a_rank_that_has_woken_at_this_moment_was_in_such_a_sleep(asleep: float, hung: bool) -> None:
    """On a loaded node it waits for a processor then: it was told as stuck just as it went on."""
    job = slept(25.0, asleep=asleep, own=NAP, syscall="clock_nanosleep", on="its clock for 20 s more")
    ranks = []
    for rank in job.ranks:
        *before, last = rank.looks
        woken = last._replace(value=last.value._replace(state="R")) if rank.rank == 1 else last
        ranks.append(replace(rank, looks=(*before, woken)))
    assert (diagnose(replace(job, ranks=tuple(ranks))).outcome == "hung") is hung


@pytest.mark.parametrize(
    ("left", "seconds", "told"),
    [(9, 14.0, None), (9, 45.0, None), (9, 65.0, "likely"), (999_990, 7.0, None), (999_990, 9.0, "likely")],
)
def test_a_sleep_whose_end_is_known_is_waited_for_and_one_without_end_is_not(
    left: int, seconds: float, told: str | None
) -> None:
    """A throttle wakes by itself; ``time.sleep(10**6)`` in an ``except`` does not."""
    on = f"its clock for {left} s more"
    verdict = diagnose(slept(seconds, asleep=seconds, own=NAP, syscall="clock_nanosleep", on=on))
    assert (verdict.findings[0].certainty if verdict.outcome == "hung" else None) == told
    if told == "likely" and left > 60:
        assert "asleep for a time of its own that ends in 277.8 h" in verdict.summary
