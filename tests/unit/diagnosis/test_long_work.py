"""A rank that computes for long in code of its own while the others wait: scoring in numpy, or a loop without end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collectors.samples.stream import SourceState
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, NOW, READING, Sketch, first

SCORES = ["fold calc.py:40", "main train.py:9"]
IN_NUMPY = "argsort /env/site-packages/numpy/core/fromnumeric.py:1133"
GET_RANK = "get_rank /env/site-packages/torch/distributed/distributed_c10d.py:2297"
LINALG = "svd /env/site-packages/numpy/linalg/linalg.py:1681"


@pytest.mark.parametrize(
    ("looks", "severity"),
    [
        (([IN_NUMPY, *SCORES], SCORES, [LINALG, *SCORES], ["fold calc.py:41", *SCORES[1:]]), "info"),
        (([IN_NUMPY, *SCORES], SCORES, ["fold calc.py:41", *SCORES[1:]], SCORES), "critical"),
        ((SCORES, ["fold calc.py:41", *SCORES[1:]], SCORES, SCORES), "critical"),
        (([IN_NUMPY, *SCORES],), "critical"),
        (([GET_RANK, *SCORES], SCORES, [GET_RANK, *SCORES], ["fold calc.py:41", *SCORES[1:]]), "critical"),
    ],
    ids=["by libraries", "seldom by one", "a loop", "at one place", "asks for its rank"],
)
def test_who_computes_by_libraries_is_given_a_minute(looks: tuple[list[str], ...], severity: str) -> None:
    job = Sketch(watched=40.0, span=25.0, patience=10.0, stood_still=25.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(0).at(*looks, state="R", syscall="running").pulse(cores=0.9)
    found = first(job.verdict())
    assert (found.severity, found.ranks) == (severity, (0,))
    job.span = job.stood_still = job.watched = 70.0
    assert first(job.verdict()).severity == "critical"


def kept_from_a_cpu(waited: int, others: int, held: float) -> Finding:
    """Rank 2 computes at one line for so long, and waits for a CPU for so many per cent of that time; so do others."""
    job = Sketch(watched=held, span=held, patience=10.0, stood_still=held)
    job.ranks().at(ALL_REDUCE).waits_for_cpu(others)
    job.ranks(2).at(SCORES, state="R", syscall="running").pulse(cores=1.0 - waited / 100).waits_for_cpu(waited)
    for number in (1, 2):
        job.node(f"node{number}", sources={"cpus": SourceState("cpus", "ok", "", NOW - 60.0)})
    return first(job.verdict())


def test_who_is_kept_from_a_cpu_is_given_more_time_by_as_much() -> None:
    assert kept_from_a_cpu(0, 0, 40.0).kind == "rank_stuck_in_code", "it had the core to itself"
    assert kept_from_a_cpu(80, 0, 40.0).kind == "waiting", "eight seconds of work are no loop"
    late = kept_from_a_cpu(80, 0, 140.0)
    assert (late.kind, late.severity) == ("rank_stuck_in_code", "critical")
    assert "without a CPU for 80% of the time that it wants one" in late.summary
    assert kept_from_a_cpu(80, 75, 40.0).kind == "rank_stuck_in_code", "all spin on a crowded machine"


def test_who_was_called_stuck_stays_so_while_another_thread_of_it_uses_some_cpu() -> None:
    """A rank that is asked for a dump of its flight recorder writes it, and sleeps where it slept."""
    job = Sketch(watched=40.0, span=25.0, patience=10.0, stood_still=25.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(2).at(READING, syscall="clock_nanosleep")
    stuck = job.verdict()
    assert (first(stuck).kind, stuck.stuck) == ("rank_stuck_in_data", frozenset({2}))
    job.ranks().pulse(cores=0.1)
    assert first(job.verdict()).kind == "waiting"
    job.told_stuck = stuck.stuck
    assert (first(job.verdict()).kind, first(job.verdict()).ranks) == ("rank_stuck_in_data", (2,))


@pytest.mark.parametrize(
    ("looks", "cores"),
    [
        ((READING, ["open data.py:20", *READING[1:]], READING, ["open data.py:20", *READING[1:]]), 0.1),
        ((READING,), 0.9),
    ],
    ids=["met elsewhere", "computes"],
)
def test_who_was_called_stuck_and_is_seen_to_work_is_given_its_time(looks: tuple[list[str], ...], cores: float) -> None:
    job = Sketch(watched=40.0, span=25.0, patience=10.0, stood_still=25.0, told_stuck=frozenset({2}))
    job.ranks().at(ALL_REDUCE)
    job.ranks(2).at(*looks, syscall="read").pulse(cores=cores)
    assert first(job.verdict()).kind == "waiting"


def test_who_has_not_run_in_one_call_on_a_file_is_not_at_work_because_other_threads_are() -> None:
    def after(asleep: float, written: float = 0.0) -> Finding:
        job = Sketch(watched=40.0, span=25.0, patience=10.0, stood_still=25.0)
        job.ranks().at(ALL_REDUCE)
        job.ranks(2).at(READING, syscall="openat", waiting_on="/data/shard-7, to read").pulse(
            cores=0.1, written=written
        )
        made = job.job()
        reader = made.ranks[2]
        looks = tuple(look._replace(value=look.value._replace(idle_since=NOW - asleep)) for look in reader.looks)
        return first(diagnose(replace(made, ranks=(*made.ranks[:2], replace(reader, looks=looks), made.ranks[3]))))

    assert (after(25.0).kind, after(25.0).severity) == ("rank_stuck_in_data", "critical")
    assert (after(25.0, written=2e8).kind, after(25.0, written=2e8).severity) == ("rank_stuck_in_data", "critical")
    assert after(1.0).kind == "waiting"
    assert after(1.0, written=2e8).kind == "waiting"
