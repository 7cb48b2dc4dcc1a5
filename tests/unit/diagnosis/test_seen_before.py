"""Two halves of a job wait at different places: where ranks were met while it went on tells which left the loop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hangtop.diagnosis.job import Job
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import NOW, Sketch, c10d, first
from tests.unit.diagnosis.test_own_gpu import SYNCHRONIZE, spinning

TRAINS = c10d("all_reduce", "train_step train.py:31", "main train.py:9")
LEFT = c10d("barrier", "finish train.py:52", "main train.py:12")
CHECK = [SYNCHRONIZE[0], "check_finite train.py:40", "main train.py:8"]


def with_past(job: Sketch, *looks: dict[int, list[str]], ago: float = 45.0) -> Job:
    """The picture with one more look at ranks, so long ago, for each of ``looks``: their stacks by number."""
    made = job.job()
    for stacks in looks:
        past = Sketch(world=job.world, stood_still=job.stood_still)
        for number, stack in stacks.items():
            past.ranks(number).at(stack)
        before = past.job()
        dumps = tuple(dump._replace(at=NOW - ago) for dump in before.stacks)
        made = replace(made, stacks=(*dumps, *made.stacks), stack_nodes=(*before.stack_nodes, *made.stack_nodes))
    return made


def one_against_one() -> Sketch:
    job = Sketch(world=2, stood_still=30.0)
    job.ranks(0).at(TRAINS)
    job.ranks(1).at(LEFT)
    return job


def test_of_two_ranks_the_one_that_waits_where_nobody_was_ever_met_is_named_as_possible() -> None:
    tied = first(one_against_one().verdict())
    assert (tied.kind, tied.ranks) == ("collective_mismatch", (0, 1))
    found = first(diagnose(with_past(one_against_one(), {0: TRAINS, 1: TRAINS})))
    assert (found.kind, found.ranks, found.certainty) == ("collective_mismatch", (1,), "possible")
    assert "rank 1 in barrier at finish (train.py:52), 1 other in all_reduce at train_step" in found.summary
    assert any("were met where the others wait (train_step (train.py:31))" in e.text for e in found.evidence)


@pytest.mark.parametrize(
    "past",
    [
        {0: TRAINS},
        {0: TRAINS, 1: LEFT},
        {0: LEFT, 1: TRAINS},
    ],
    ids=["one of them was not met there", "it was met here before", "the other was met there"],
)
def test_both_stay_named_where_the_past_does_not_tell(past: dict[int, list[str]]) -> None:
    found = first(diagnose(with_past(one_against_one(), past)))
    assert (found.kind, found.ranks) == ("collective_mismatch", (0, 1))


def test_looks_since_the_job_stopped_are_no_past() -> None:
    found = first(diagnose(with_past(one_against_one(), {0: TRAINS, 1: TRAINS}, ago=31.0)))
    assert (found.kind, found.ranks) == ("collective_mismatch", (0, 1))


@pytest.mark.parametrize(("odd", "named"), [((2, 3), (2, 3)), ((0, 1), (0, 1))])
def test_of_halves_that_wait_for_their_gpus_likewise(odd: tuple[int, ...], named: tuple[int, ...]) -> None:
    job = spinning()
    job.ranks(*odd).at(CHECK, state="R").pulse(cores=1.0)
    found = first(diagnose(with_past(job, dict.fromkeys(range(4), SYNCHRONIZE))))
    assert (found.kind, found.ranks, found.certainty) == ("collective_mismatch", named, "possible")
    both = first(diagnose(with_past(job, dict.fromkeys(range(4), SYNCHRONIZE), dict.fromkeys(range(4), CHECK))))
    assert (both.kind, both.ranks) == ("collective_stalled", (0, 1, 2, 3))


def test_rank_0_alone_may_only_ask_for_a_figure() -> None:
    job = Sketch(world=2, stood_still=30.0)
    job.ranks().at(SYNCHRONIZE, state="R").pulse(cores=1.0)
    job.ranks(0).at(CHECK, state="R").pulse(cores=1.0)
    found = first(diagnose(with_past(job, dict.fromkeys(range(2), SYNCHRONIZE))))
    assert found.ranks != (0,)
