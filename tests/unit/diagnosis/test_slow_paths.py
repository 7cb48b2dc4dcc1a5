"""Connections between nodes that have more to send than they get rid of."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from collectors.samples.fabric import Interface
from collectors.samples.stacks import QueuedPath
from hangtop.diagnosis.job import JobMotion
from tests.support.jobs import ALL_REDUCE, MOVING, Sketch, first, kinds

LOOKS = 5
SPAN = 40.0


def path(per_s: float, *, far: str = "10.0.0.2:40001", looks: Sequence[int] = range(LOOKS)) -> list[list[QueuedPath]]:
    """Look by look: so many bytes a second get through."""
    every = [SPAN / (LOOKS - 1) * look for look in range(LOOKS)]
    return [[QueuedPath(50001, far, 1000 + int(per_s * at))] if look in looks else [] for look, at in enumerate(every)]


def between(queued: Sequence[Sequence[QueuedPath]]) -> Sketch:
    """Four ranks in one collective on two nodes; rank 0 sends."""
    job = Sketch(looks=LOOKS, span=SPAN, patience=60.0, watched=60.0, stood_still=0.5, motion=MOVING)
    for index in (1, 2):
        eth = Interface("eth0", 1500, None, True, [f"10.0.0.{index}/24"], "physical")
        job.node(f"node{index}", interfaces=(eth,))
    job.ranks().at(ALL_REDUCE).pulse(switches=50)
    job.ranks(0).at(ALL_REDUCE, queued=queued)
    return job


def standing(queued: Sequence[Sequence[QueuedPath]]) -> Sketch:
    """The same of a job that stands still in every look."""
    job = between(queued)
    job.patience, job.stood_still, job.motion = 10.0, 50.0, JobMotion(moving=False)
    job.ranks().pulse()
    return job


def test_a_collective_whose_data_are_on_their_way_is_not_stalled() -> None:
    assert standing([]).verdict().outcome == "hung"
    verdict = standing(path(25_000.0)).verdict()
    assert (verdict.outcome, kinds(verdict)) == ("unknown", [])
    assert standing(path(25_000.0, looks=(3, 4))).verdict().outcome == "unknown"


@pytest.mark.parametrize("queued", [path(0.0), path(25_000.0, looks=(0, 1, 2)), path(25_000.0, looks=(4,))])
def test_one_that_has_come_to_rest_is(queued: Sequence[Sequence[QueuedPath]]) -> None:
    assert first(standing(queued).verdict()).kind == "collective_stalled"


def test_a_collective_that_goes_on_in_bursts_over_a_path_that_loses_packets_is_not_stalled() -> None:
    job = standing([])
    job.ranks().at(ALL_REDUCE, carrying=35_000.0)
    assert job.verdict().outcome == "unknown", "nothing waits to be sent whenever somebody looks"
    job.stood_still = 12.0
    job.span = 4.0
    assert job.verdict().outcome == "unknown"
