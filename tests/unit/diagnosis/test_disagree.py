"""Everybody waits: mismatches, circles of sends and receives, stuck sub-groups, and waits in which nobody is odd."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest

from tests.support.jobs import ALL_REDUCE, BACKWARD, BARRIER, MOVING, Sketch, alarms, c10d, first, gpu, kinds

_TORCH = "/venv/lib/python3.11/point-packages/torch"
_FUNCTIONAL = "/venv/lib/python3.11/site-packages/torch/distributed/_functional_collectives.py"
ITEM = [f"synchronize {_TORCH}/cuda/__init__.py:900", "step loop.py:30", "main loop.py:9"]


class At(NamedTuple):
    """Where some ranks are."""

    ranks: Sequence[int]
    stack: list[str]
    arguments: Mapping[str, str] = {}


OWN, ALL = {"group_given": "yes"}, {"group_given": "no"}
SWAP = "swap halo.py:9"
CASES: dict[str, tuple[int, list[At], str, tuple[int, ...], str]] = {
    "the first rank waits elsewhere": (
        4, [At(range(1, 4), BACKWARD), At([0], BARRIER)], "collective_mismatch", (0,), "end_of_epoch (loop.py:77)",
    ),
    "the last rank waits elsewhere": (
        4, [At(range(3), BACKWARD), At([3], BARRIER)], "collective_mismatch", (3,), "barrier",
    ),
    "two against two": (
        4, [At([0, 1], ALL_REDUCE), At([2, 3], c10d("broadcast", "sync sync.py:3"))], "collective_mismatch",
        (0, 1, 2, 3), "broadcast",
    ),
    "a sub-group is nearer to the end of the wait than the crowd, which waits for it": (
        8,
        [At([0, 1, 4, 5, 6, 7], ALL_REDUCE, ALL), At([2], c10d("all_gather", "gather_heads tp.py:11"), OWN),
         At([3], c10d("reduce_scatter", "split_heads tp.py:25"), OWN)], "collective_mismatch", (2, 3), "all_gather",
    ),
    "one that went on to a barrier of all, and not the one in a group of its own": (
        4,
        [At([0, 2], [f"wait_tensor {_FUNCTIONAL}:145", "step loop.py:26"]),
         At([3], c10d("all_gather", "step loop.py:26"), OWN), At([1], c10d("barrier", "step loop.py:31"), ALL)],
        "collective_mismatch", (1,), "barrier",
    ),
    "one that went on to the whole job among those in groups of theirs": (
        4,
        [At([0, 2], c10d("all_reduce", "tensor_sum layers.py:9"), OWN),
         At([3], c10d("reduce_scatter_tensor", "shard_sum layers.py:40"), OWN),
         At([1], c10d("barrier", "checkpoint_step train.py:30"), ALL)], "collective_mismatch", (1,), "barrier",
    ),
    "a pair stuck in one operation": (
        8,
        [At([0, 1, 4, 5, 6, 7], BACKWARD), At([2, 3], c10d("all_reduce", "join_heads tp.py:11"), OWN)],
        "collective_stalled", (2, 3), "6 others wait for them",
    ),
    "all at the same operation": (
        4, [At(range(4), ALL_REDUCE)], "collective_stalled", (0, 1, 2, 3), "no rank is odd",
    ),
    "both receive first": (
        4,
        [At([0, 1], BACKWARD), At([2], c10d("recv", SWAP), {"src": "3"}), At([3], c10d("recv", SWAP), {"src": "2"})],
        "p2p_deadlock", (2, 3), "rank 2 in recv with rank 3",
    ),
    "a ring of receives": (
        4, [At([rank], c10d("recv", "pass_on ring.py:9"), {"src": str((rank - 1) % 4)}) for rank in range(4)],
        "p2p_deadlock", (0, 1, 2, 3), "circle",
    ),
    "everybody receives and nobody is left to send": (
        4, [At(range(4), c10d("recv", SWAP))], "p2p_deadlock", (0, 1, 2, 3), "circle",
    ),
}  # fmt: skip


def job_at(world: int, places: Sequence[At]) -> Sketch:
    job = Sketch(world=world)
    for place in places:
        job.ranks(*place.ranks).at(place.stack, arguments=place.arguments)
    return job


@pytest.mark.parametrize("case", CASES)
def test_what_everybody_waits_in(case: str) -> None:
    world, places, kind, ranks, words = CASES[case]
    found = first(job_at(world, places).verdict())
    assert (found.kind, found.ranks) == (kind, ranks)
    assert words in found.summary


def test_two_against_two_is_less_sure_than_one_against_three() -> None:
    tied, clear = (
        first(job_at(*CASES[case][:2]).verdict()) for case in ("two against two", "the last rank waits elsewhere")
    )
    assert tied.weight < clear.weight


def test_data_that_moves_is_no_stall() -> None:
    """One long collective over a slow network: nothing switches, but segments flow."""
    job = Sketch(motion=MOVING)
    job.ranks().at(ALL_REDUCE)
    assert alarms(job.verdict()) == []


@pytest.mark.parametrize(
    ("row", "told"),
    [({"utilization": 100, "power": 110.0}, ["collective_stalled"]), ({"utilization": 99, "power": 620.0}, [])],
)
def test_spinning_counts_only_with_spinning_gpus(row: dict[str, float], told: list[str]) -> None:
    """NCCL keeps the CPU busy: without the GPUs' word nobody can tell a stall from a fast job."""
    job = Sketch()
    job.ranks().at(ITEM, state="R").pulse(cores=1.0)
    assert alarms(job.verdict()) == []
    for name, ranks in (("node1", (0, 1)), ("node2", (2, 3))):
        job.node(name, gpus=tuple(gpu(i, [row] * 5, pids=[1000 + rank]) for i, rank in enumerate(ranks)))
    assert alarms(job.verdict()) == told


@pytest.mark.parametrize(
    "places",
    [
        [At(range(4), c10d("batch_isend_irecv", SWAP))],
        [At([0, 1], BACKWARD), At([2], c10d("send", SWAP), {"dst": "3"}), At([3], c10d("recv", SWAP), {"src": "2"})],
    ],
)
def test_sends_that_meet_their_receives_are_no_circle(places: list[At]) -> None:
    assert "p2p_deadlock" not in kinds(job_at(4, places).verdict())


def test_moving_ranks_at_different_operations_are_healthy() -> None:
    job = Sketch()
    job.ranks(0, 1, 2).at(BACKWARD, ALL_REDUCE).pulse(switches=30, cores=0.3)
    job.ranks(3).at(BARRIER, BACKWARD).pulse(switches=30, cores=0.3)
    assert alarms(job.verdict()) == []
