"""All ranks wait for their own GPUs, which spin in NCCL's kernels: at one line of the program, or some elsewhere."""

from __future__ import annotations

import pytest

from tests.support.jobs import MOVING, alarms, c10d, first
from tests.unit.diagnosis.test_own_gpu import COMPUTE, SPIN, SYNCHRONIZE, spinning, with_gpus

CHECK = [SYNCHRONIZE[0], "check_finite train.py:40", "main train.py:8"]
"""A collective behind a condition that only holds on this rank."""


def test_who_waits_in_a_function_that_no_other_is_in_is_named_as_possible() -> None:
    job = spinning()
    job.ranks(1).at(CHECK, state="R").pulse(cores=1.0)
    found = first(job.verdict())
    assert (found.kind, found.ranks, found.certainty) == ("collective_mismatch", (1,), "possible")
    assert "different lines: rank 1 for its own GPU at check_finite (train.py:40)" in found.summary
    assert "3 others for their own GPU at log_metrics (train.py:85)" in found.summary


@pytest.mark.parametrize("odd", [(0,), (0, 1), (2, 3)])
def test_who_may_print_a_figure_and_halves_are_not_named(odd: tuple[int, ...]) -> None:
    job = spinning()
    job.ranks(*odd).at(CHECK, state="R").pulse(cores=1.0)
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("collective_stalled", (0, 1, 2, 3))


@pytest.mark.parametrize("function", ["validate", "save_checkpoint"])
def test_rank_0_that_evaluates_or_saves_alone_is_named_as_it_prints_no_figure(function: str) -> None:
    """It calls what all must call: a wrapped module whose buffers are sent, or a checkpoint that is gathered."""
    job = spinning()
    job.ranks(0).at([SYNCHRONIZE[0], f"{function} train.py:40", "main train.py:8"], state="R").pulse(cores=1.0)
    found = first(job.verdict())
    assert (found.kind, found.ranks, found.certainty) == ("collective_mismatch", (0,), "possible")


def test_nor_is_it_odd_in_an_evaluation_that_the_others_are_in_as_well() -> None:
    job = spinning()
    job.ranks().at([SYNCHRONIZE[0], "validate train.py:44", "main train.py:8"], state="R").pulse(cores=1.0)
    job.ranks(0).at([SYNCHRONIZE[0], "log_table train.py:60", "validate train.py:45", "main train.py:8"], state="R")
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("collective_stalled", (0, 1, 2, 3))


def test_stages_that_come_to_one_function_on_different_ways_are_not_named() -> None:
    inner = [SYNCHRONIZE[0], "communicate schedule.py:33"]
    job = spinning()
    job.ranks().at([*inner, "forward schedule.py:50", "main train.py:9"], state="R").pulse(cores=1.0)
    job.ranks(3).at([*inner, "backward schedule.py:61", "main train.py:9"], state="R").pulse(cores=1.0)
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("collective_stalled", (0, 1, 2, 3))


def test_lines_say_nothing_of_a_job_that_moves_or_computes() -> None:
    moving = spinning(stood_still=0.0)
    moving.motion = MOVING
    computing = with_gpus(spinning(), SPIN, COMPUTE, SPIN, SPIN)
    for job in (moving, computing):
        job.ranks(1).at(CHECK, state="R").pulse(cores=1.0)
        assert alarms(job.verdict()) == []


def test_who_stays_in_a_call_that_python_does_not_show_waits_for_its_gpu_whatever_the_first_look_met() -> None:
    """The rank came there since the job stopped, and computes nothing: its GPU is full of a kernel that waits."""
    job = spinning(span=12.0)
    hidden = ["log_loss train.py:50", "main train.py:9"]
    job.ranks(1).at(["loss_item train.py:31", "main train.py:9"], *[hidden] * 4, state="R").pulse(cores=1.0)
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("collective_mismatch", (1,))
    assert "rank 1 for its own GPU at log_loss (train.py:50)" in found.summary


@pytest.mark.parametrize(("left", "named"), [((3,), (3,)), ((2, 3), (0, 1, 2, 3))])
def test_who_left_the_stages_of_a_pipeline_for_a_barrier_is_named_as_possible(
    left: tuple[int, ...], named: tuple[int, ...]
) -> None:
    """The others wait for their GPUs at the lines of their stages, and none of them in its function."""
    job = spinning()
    job.ranks(0, 2).at([SYNCHRONIZE[0], "forward schedule.py:50", "main train.py:9"], state="R").pulse(cores=1.0)
    job.ranks(1).at([SYNCHRONIZE[0], "backward schedule.py:61", "main train.py:9"], state="R").pulse(cores=1.0)
    job.ranks(*left).at(c10d("barrier", "finish train.py:52", "main train.py:12")).pulse(cores=0.0)
    found = first(job.verdict())
    assert (found.ranks, found.certainty) == (named, "possible")
