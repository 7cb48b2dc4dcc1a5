"""Jobs that move, but slowly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from collectors.samples.stream import SourceState
from hangtop.diagnosis.job import JobMotion
from hangtop.diagnosis.rules.slow import slowness_judged
from hangtop.diagnosis.waits.job_status import status_of_job
from tests.support.jobs import BACKWARD, COMPUTING, MOVING, NOW, READING, Sketch, alarms, first, kinds

SLUGGISH = ["slow_matmul model.py:50", *COMPUTING[2:]]
SAVES = ["_save /venv/lib/python3.11/site-packages/torch/serialization.py:868", "keep loop.py:31"]


def test_a_rank_that_every_look_met_at_one_place_since_the_last_step_is_not_slow_but_may_be_stuck() -> None:
    """A sign of motion that was none, on a loaded node, made a loop without end a slow rank."""
    job = Sketch(motion=JobMotion(True, "2 ranks computing", 12, NOW - 30.0))
    job.ranks().at(BACKWARD).pulse(switches=9, cores=0.03)
    job.ranks(2).at(SLUGGISH, state="R").pulse(switches=9, cores=0.95)
    assert "straggler_rank" not in kinds(job.verdict())
    job.motion = replace(job.motion, last_step_at=NOW - 1.0)
    assert "straggler_rank" in kinds(job.verdict()), "steps were told between the looks"


def test_looks_between_which_no_rank_waited_anew_are_of_one_wait() -> None:
    """As of a data loader that takes 3 s for a batch now and then, on any rank."""
    job = Sketch(motion=JobMotion(True, "3 ranks computing, reading or writing"))
    job.ranks().at(BACKWARD).pulse(switches=0, cores=0.0)
    job.ranks(2).at(READING)
    assert "straggler_rank" not in kinds(job.verdict())


@pytest.mark.parametrize(("pause", "step"), [(20.0, None), (None, 20.0)])
def test_looks_within_one_step_are_of_one_wait(pause: float | None, step: float | None) -> None:
    job = Sketch(patience=60.0, watched=90.0, stood_still=1.0, motion=replace(MOVING, step_s=step), span=7.0)
    job.usual_pause = pause
    job.ranks().at(BACKWARD).pulse(switches=9, cores=0.03)
    job.ranks(2).at(SLUGGISH, state="R").pulse(switches=9, cores=0.95)
    assert "straggler_rank" not in kinds(job.verdict())
    assert not slowness_judged(status_of_job(job.job()))
    job.span = 21.0
    verdict = job.verdict()
    found = first(verdict)
    assert (found.kind, found.ranks, verdict.outcome) == ("straggler_rank", (2,), "slow")
    assert found.summary.endswith("in 100% of the samples: slow_matmul (model.py:50)")


def test_a_pause_that_the_job_takes_at_every_step_is_its_rhythm() -> None:
    job = Sketch(looks=6, span=24.0)
    job.ranks().at(BACKWARD).pulse(switches=9, cores=0.03)
    job.ranks(2).at(READING)
    job.patience, job.watched, job.usual_pause = 60.0, 600.0, 20.0
    job.stood_still = 0.5  # all looks but the last are of the waits before
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("straggler_rank", (2,))
    job.stood_still = 25.0
    assert alarms(job.verdict()) == [], "all looks are of one wait, which may become a hang"


def test_who_was_late_in_one_short_pause_alone_is_not_slow() -> None:
    """A short watch has several looks at it; of two such pauses a rank that is late in both is."""
    job = Sketch(looks=6, span=4.0)
    hands, goes_on = ["hand_over train.py:50", "main train.py:9"], BACKWARD
    job.ranks().at(BACKWARD).pulse(switches=9, cores=0.03)
    job.ranks(2).at(hands, hands, hands, hands, hands, goes_on).pulse(switches=9, cores=0.03)
    job.motion, job.stood_still = MOVING, 0.0
    assert kinds(job.verdict()) == ["straggler_rank"]
    job.pauses = ((NOW - 4.1, NOW - 0.5),)
    assert "straggler_rank" not in kinds(job.verdict())
    job.pauses = ((NOW - 4.1, NOW - 2.0), (NOW - 1.9, NOW - 0.5))
    assert kinds(job.verdict()) == ["straggler_rank"]


@pytest.mark.parametrize(("waited", "slow"), [((80, 90, 85, 75), False), ((80, 90, 5, 75), True)])
def test_where_all_wait_for_a_cpu_who_is_last_is_chance(waited: tuple[int, ...], slow: bool) -> None:
    """One that sleeps in its own code meanwhile is late by itself."""
    job = Sketch(looks=6, span=10.0)
    job.ranks().at(BACKWARD).pulse(switches=9, cores=0.03)
    job.ranks(2).at(["write_line train.py:50", "main train.py:9"], state="S").pulse(switches=9, cores=0.03)
    for rank, share in enumerate(waited):
        job.ranks(rank).waits_for_cpu(share, nice=10)
    job.motion, job.stood_still = MOVING, 0.0
    assert ("straggler_rank" in kinds(job.verdict())) is slow


def test_who_may_be_slow_is_looked_at_again_before_it_is_called_chance() -> None:
    """Five looks at a rank that is never met waiting, at others that wait in three of five: it may be chance."""
    job = Sketch(motion=MOVING, stood_still=0.0)
    job.ranks().at(BACKWARD, SLUGGISH, BACKWARD, SLUGGISH, BACKWARD).pulse(switches=9, cores=0.4)
    job.ranks(2).at(SLUGGISH).pulse(switches=9, cores=0.4)
    assert alarms(job.verdict()) == []
    assert not slowness_judged(status_of_job(job.job()))
    job.ranks(2).at(BACKWARD, SLUGGISH, SLUGGISH, BACKWARD, BACKWARD)
    assert slowness_judged(status_of_job(job.job()))


@pytest.mark.parametrize(("evaluates", "slow"), [(1, True), (2, False), (8, False)])
@pytest.mark.parametrize("stack", [SAVES, ["evaluate loop.py:60"], ["forward m.py:6", "evaluate loop.py:61"]])
def test_a_rank_that_evaluates_or_saves_for_all_is_no_straggler(stack: list[str], evaluates: int, slow: bool) -> None:
    """Eight samples of the late rank, so many of them in an evaluation or in ``torch.save``."""
    job = Sketch(looks=8, span=14.0, motion=MOVING, stood_still=0.0)
    job.ranks().at(BACKWARD).pulse(switches=9, cores=0.03)
    job.ranks(2).at(*[[*stack, "main loop.py:95"]] * evaluates, *[SLUGGISH] * (8 - evaluates), state="R")
    assert ("straggler_rank" in kinds(job.verdict())) is slow


# --- waits that only GPUs tell ------------------------------------------------------------------------------------


OWN_LINE = ["train_step train.py:85", "main train.py:9"]
"""``loss.item()``."""


def stepping(power: float) -> Sketch:
    """Four ranks in steps of a second; but for rank 2, which reads, all are at one line, with GPUs at this power."""
    job = Sketch(patience=60.0, watched=60.0, stood_still=0.0, span=6.0)
    job.ranks().at(OWN_LINE, state="R").pulse(cores=1.0)
    job.ranks(2).at(READING, syscall="read").pulse(cores=0.0)
    job.motion = JobMotion(moving=True, proof="steps 4 to 9 in 5 s", last_step=9, step_s=1.0)
    busy = [{"utilization": 90.0, "power": power}] * 8
    return job.gpus(busy, busy, [{"utilization": 3.0, "power": 80.0}] * 8, busy)


def test_ranks_whose_gpus_spin_wait_for_the_one_that_reads() -> None:
    found = first(stepping(125.0).verdict())
    assert (found.kind, found.ranks) == ("straggler_rank", (2,))
    assert "read" in found.summary


def test_ranks_whose_gpus_compute_are_not_said_to_wait() -> None:
    job = stepping(640.0)
    assert "straggler_rank" not in [found.kind for found in job.verdict().findings]
    assert alarms(job.verdict()) == []


def test_a_rank_that_prepares_before_the_first_step_is_not_slow() -> None:
    """It computes in a pool of processes, say; the others spin in one wait for it, and nobody was told a step."""
    job = stepping(125.0)
    job.motion = JobMotion(moving=True, proof="1 rank computing, reading or writing")
    assert "straggler_rank" not in [found.kind for found in job.verdict().findings]


# --- one GPU that computes while the others wait for it -----------------------------------------------------------


SPIN = {"utilization": 100, "power": 120.0}
COMPUTE = {"utilization": 100, "power": 640.0}
SYNCHRONIZE = ["synchronize /env/site-packages/torch/cuda/__init__.py:985", "train_step train.py:85", "main train.py:9"]
WAITS = [COMPUTE, SPIN, SPIN, SPIN, SPIN] * 5
"""A step takes five seconds, four of which it waits."""
LATE = [COMPUTE] * 25


def steps(*rows: Sequence[dict[str, float]]) -> Sketch:
    """Four ranks that all wait for their own GPUs in every look; rank n's GPU shows the n-th row, a look a second."""
    job = Sketch(patience=60.0, watched=60.0, stood_still=2.0, span=6.0)
    job.ranks().at(SYNCHRONIZE, state="R").pulse(cores=1.0)
    job.motion = JobMotion(moving=True, proof="steps 4 to 9 in 25 s", last_step=9, step_s=5.0)
    return job.gpus(*rows)


def test_the_others_wait_for_the_gpu_that_computes() -> None:
    verdict = steps(WAITS, WAITS, LATE, WAITS).verdict()
    found = first(verdict)
    assert (verdict.outcome, found.kind, found.ranks) == ("slow", "straggler_rank", (2,))
    assert "rank 2 worked for 100% of it, the others waited for 80%" in found.evidence[0].text


@pytest.mark.parametrize(("stacks", "slow"), [([["evaluate train.py:60"]], False), ([SYNCHRONIZE], True), ([], True)])
def test_a_rank_whose_gpu_evaluates_for_all_is_no_straggler(stacks: list[list[str]], slow: bool) -> None:
    """The GPU alone decides for a rank whose stack was never taken."""
    job = steps(WAITS, WAITS, LATE, WAITS)
    job.ranks(2).at(*stacks, state="R")
    assert ("straggler_rank" in kinds(job.verdict())) is slow


def test_gpus_that_all_compute_wait_for_nobody() -> None:
    assert alarms(steps(LATE, LATE, LATE, LATE).verdict()) == []
    busy = [COMPUTE, COMPUTE, COMPUTE, SPIN, SPIN] * 5
    assert alarms(steps(busy, busy, LATE, busy).verdict()) == []


@pytest.mark.parametrize("takes", [8.0, None])
def test_within_a_few_long_steps_now_one_computes_and_now_another(takes: float | None) -> None:
    job = steps(WAITS, WAITS, LATE, WAITS)
    job.motion = replace(job.motion, step_s=takes)
    assert alarms(job.verdict()) == []


# --- a rank that does not get its CPU -----------------------------------------------------------------------------


def training(*, state: str = "ok", link: str = "live") -> Sketch:
    """Four ranks that train; the source ``cpus`` of their nodes answers, or is in another state."""
    made = Sketch(patience=60.0, watched=60.0)
    made.ranks().at(COMPUTING, state="R").pulse(cores=0.5, switches=40.0).waits_for_cpu(0)
    made.motion = JobMotion(moving=True, proof="steps 4 to 9 in 5 s", last_step=9, step_s=1.0)
    for number in (1, 2):
        made.node(f"node{number}", link=link, sources={"ranks": SourceState("ranks", state, "", NOW - 60.0)})
    return made


def test_ranks_that_are_bound_to_one_cpu() -> None:
    seen = training()
    seen.ranks(2, 3).waits_for_cpu(50, allowed="3", nice=19)
    found = first(seen.verdict())
    assert (found.kind, found.ranks, found.nodes) == ("cpu_starved", (2, 3), ("node2",))
    assert "may run on CPUs 3, nice 19" in found.summary


@pytest.mark.parametrize("shares", [(60, 60, 60, 60), (60, 60, 60, 0), (20, 20, 20, 40)])
def test_ranks_that_wait_like_the_others_are_not_told_apart(shares: tuple[int, ...]) -> None:
    seen = training()
    for rank, share in enumerate(shares):
        seen.ranks(rank).waits_for_cpu(share, allowed="3")
    assert alarms(seen.verdict()) == []


@pytest.mark.parametrize(("state", "link"), [("absent", "live"), ("ok", "lost")])
def test_kernels_that_do_not_count_and_nodes_that_are_gone_say_nothing(state: str, link: str) -> None:
    seen = training(state=state, link=link)
    seen.ranks(3).waits_for_cpu(60, allowed="3")
    assert "cpu_starved" not in alarms(seen.verdict())


def test_a_machine_that_is_busy_everywhere_is_no_reason() -> None:
    seen = training()
    seen.ranks(2).waits_for_cpu(60, allowed="0-63")
    assert alarms(seen.verdict()) == []


def test_nothing_is_compared_with_ranks_whose_first_window_is_not_over() -> None:
    seen = training()
    seen.ranks(2, 3).waits_for_cpu(50, nice=10)
    for rank in (0, 1):
        seen.own(rank).waited = None
    assert "cpu_starved" not in alarms(seen.verdict())
