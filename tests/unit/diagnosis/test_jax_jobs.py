"""Jobs of JAX with several processes: waits that poll, and one that was killed, as a real job of three showed them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.job import JobMotion
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import MOVING, Sketch, first, kinds

JAX = "/venv/lib/python3.11/site-packages/jax/_src"
READS_LOSS = [
    f"ArrayImpl._value {JAX}/array.py:623",
    f"annotate_function.<locals>.wrapper {JAX}/profiler.py:420",
    f"ArrayImpl.__float__ {JAX}/array.py:300",
    "main train.py:40",
]
LOOPS = [["rebalance train.py:83", "main train.py:39"], ["rebalance train.py:82", "main train.py:39"]]
RESET = "UNKNOWN: Gloo all-reduce failed: [external/gloo/gloo/transport/tcp/pair.cc:538] Read error [127.0.0.1]:41887"


def three(*, still: float | None = 4.2, span: float = 2.8) -> Sketch:
    """Two read a result and look five times a second whether they were interrupted; the third computes for ever."""
    job = Sketch(world=3, nodes=1, looks=4, span=span, patience=3.5, stood_still=still)
    job.ranks().at(READS_LOSS).pulse(cores=0.01, switches=5.0)
    job.ranks(2).at(*LOOPS, state="R").pulse(cores=0.7)
    job.motion = JobMotion(moving=None if still is None else False)
    return job


@pytest.mark.parametrize("still", [None, 0.5, 2.0])
def test_while_the_job_moves_or_has_hardly_stood_they_are_steps(still: float | None) -> None:
    job = three(still=still)
    if still is None:
        job.motion = MOVING
    assert job.verdict().outcome != "hung"


def killed(world: int = 3, gone: tuple[int, ...] = (1,), victims: int = 2, size: int | None = None) -> Sketch:
    """Nobody's command tells how many there are; gloo does. All write to one terminal, without a number."""
    job = Sketch(world=world, nodes=1, looks=2, stood_still=4.0)
    job.ranks().at(READS_LOSS).process(world_size=None).pulse(switches=5.0)
    job.ranks(*gone).absent()
    job.says("job.size", None, source="job.out", size=world if size is None else size)
    for _ in range(victims):
        job.says("python.exception", None, source="job.out", type="JaxRuntimeError", signature="connection",
                 message=f"{RESET}: Connection reset by peer", consequence=True)  # fmt: skip
    return job


def verdict(job: Sketch) -> Verdict:
    return diagnose(replace(job.job(), world_size=None))


def test_of_ranks_that_are_all_known_the_one_that_is_not_there_was_killed() -> None:
    found = verdict(killed())
    assert (first(found).kind, first(found).ranks, found.outcome) == ("rank_killed", (1,), "crashed")
    assert "the others lost the connection to it" in first(found).summary


@pytest.mark.parametrize(
    "job",
    [killed(victims=0), killed(size=2), killed(gone=(0, 1)), killed(world=8, gone=(1, 2, 3), victims=7)],
    ids=["nobody lost one", "a group of two", "most are gone", "victims are gone, too"],
)
def test_else_nobody_is_named(job: Sketch) -> None:
    assert "rank_killed" not in kinds(verdict(job))
