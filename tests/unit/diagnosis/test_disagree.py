"""Everybody waits: mismatches, circles of sends and receives, stuck sub-groups, and waits in which nobody is odd."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import (
    ALL_REDUCE,
    BACKWARD,
    BARRIER,
    MOVING,
    Sketch,
    alarms,
    c10d,
    first,
    gpu,
    kinds,
)

_TORCH = "/venv/lib/python3.11/point-packages/torch"
SPINNING = {"utilization": 100, "power": 110.0}
ITEM = [f"synchronize {_TORCH}/cuda/__init__.py:900", "step loop.py:30", "main loop.py:9"]


def test_one_rank_waits_elsewhere() -> None:
    for odd in (0, 3):
        job = Sketch()
        job.ranks().at(BACKWARD)
        job.ranks(odd).at(BARRIER)
        found = first(job.verdict())
        assert (found.kind, found.ranks) == ("collective_mismatch", (odd,))
        assert "barrier" in found.summary
        assert "end_of_epoch (loop.py:77)" in found.summary
        assert "backward" in found.summary


def test_two_against_two_names_both_and_is_less_sure() -> None:
    job = Sketch()
    job.ranks(0, 1).at(ALL_REDUCE)
    job.ranks(2, 3).at(c10d("broadcast", "sync sync.py:3"))
    tied = first(job.verdict())
    assert tied.ranks == (0, 1, 2, 3)
    job.ranks(2).at(ALL_REDUCE)
    assert tied.weight < first(job.verdict()).weight


def test_a_subgroup_is_nearer_to_the_end_of_the_wait_than_the_crowd() -> None:
    """Ranks 4 to 7 are the majority and innocent: they wait for the pair, in the default group."""
    job = Sketch(world=8)
    job.ranks().at(ALL_REDUCE, arguments={"group_given": "no"})
    job.ranks(2).at(c10d("all_gather", "gather_heads tp.py:11"), arguments={"group_given": "yes"})
    job.ranks(3).at(c10d("reduce_scatter", "split_heads tp.py:25"), arguments={"group_given": "yes"})
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("collective_mismatch", (2, 3))


def test_a_rank_that_went_on_to_a_barrier_of_all_is_odd_and_not_the_one_in_a_group_of_its_own() -> None:
    """FSDP with tensor parallelism: one line of the program calls operations of several groups."""
    waits = [
        "wait_tensor /venv/lib/python3.11/site-packages/torch/distributed/_functional_collectives.py:145",
        "step loop.py:26",
    ]
    job = Sketch()
    job.ranks(0, 2).at(waits)
    job.ranks(3).at(c10d("all_gather", "step loop.py:26"), arguments={"group_given": "yes"})
    job.ranks(1).at(c10d("barrier", "step loop.py:31"), arguments={"group_given": "no"})
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("collective_mismatch", (1,))


def test_a_pair_stuck_in_one_operation() -> None:
    job = Sketch(world=8)
    job.ranks().at(BACKWARD)
    job.ranks(2, 3).at(c10d("all_reduce", "join_heads tp.py:11"), arguments={"group_given": "yes"})
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("collective_stalled", (2, 3))
    assert "6 others wait for them" in found.summary


def test_all_at_the_same_operation() -> None:
    job = Sketch()
    job.ranks().at(ALL_REDUCE)
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("collective_stalled", (0, 1, 2, 3))
    assert found.weight < 0.8


def test_data_that_moves_is_no_stall() -> None:
    """One long collective over a slow network: nothing switches, but segments flow."""
    job = Sketch(motion=MOVING)
    job.ranks().at(ALL_REDUCE)
    assert alarms(job.verdict()) == []


def test_spinning_counts_only_with_spinning_gpus() -> None:
    """NCCL keeps the CPU busy: without the GPUs' word nobody can tell a stall from a fast job."""
    job = Sketch()
    job.ranks().at(ITEM, state="R").pulse(cores=1.0)
    assert alarms(job.verdict()) == []
    for name, ranks in (("node1", (0, 1)), ("node2", (2, 3))):
        job.node(name, gpus=tuple(gpu(i, [SPINNING] * 5, pids=[1000 + rank]) for i, rank in enumerate(ranks)))
    assert first(job.verdict()).kind == "collective_stalled"


def test_gpus_at_work_are_no_stall() -> None:
    job = Sketch()
    job.ranks().at(ITEM, state="R").pulse(cores=1.0)
    working = [{"utilization": 99, "power": 620.0}] * 5
    for name, ranks in (("node1", (0, 1)), ("node2", (2, 3))):
        job.node(name, gpus=tuple(gpu(i, working, pids=[1000 + rank]) for i, rank in enumerate(ranks)))
    assert alarms(job.verdict()) == []


def test_both_receive_first() -> None:
    job = Sketch()
    job.ranks(0, 1).at(BACKWARD)
    job.ranks(2).at(c10d("recv", "swap halo.py:9"), arguments={"src": "3"})
    job.ranks(3).at(c10d("recv", "swap halo.py:9"), arguments={"src": "2"})
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("p2p_deadlock", (2, 3))
    assert "rank 2 in recv with rank 3" in found.summary
    assert kinds(job.verdict()) == ["p2p_deadlock"]


def test_a_ring_of_receives() -> None:
    job = Sketch()
    for rank in range(4):
        job.ranks(rank).at(c10d("recv", "pass_on ring.py:9"), arguments={"src": str((rank - 1) % 4)})
    assert first(job.verdict()).ranks == (0, 1, 2, 3)


@pytest.mark.parametrize(("away", "named"), [((1, 3), (0, 1, 2, 3)), ((1, 2, 3), (0,))])
def test_of_exchanges_that_were_begun_before_nothing_tells_who_left_them(
    away: tuple[int, ...], named: tuple[int, ...]
) -> None:
    """A ring in which one rank makes a round less: its neighbour ends the rounds as well."""
    job = Sketch()
    job.ranks().at(["gloo::transport::tcp::UnboundBuffer::waitRecv libtorch_cpu.so:0", "rotate ring.py:9"])
    job.ranks(*away).at(ALL_REDUCE)
    made = job.job()
    found = first(diagnose(replace(made, stacks=tuple(map(with_native, made.stacks)))))
    assert (found.kind, found.ranks) == ("collective_mismatch", named)
    assert len(away) != 2 or found.certainty == "possible"


def with_native(dump: StackDump) -> StackDump:
    """The dump with the frames of libraries as native ones."""
    threads = [
        stack._replace(frames=[one._replace(native=".so" in one.file) for one in stack.frames])
        for stack in dump.threads
    ]
    return dump._replace(threads=threads, method="native")


def test_everybody_receives_and_nobody_is_left_to_send() -> None:
    job = Sketch()
    job.ranks().at(c10d("recv", "swap halo.py:9"))
    assert first(job.verdict()).kind == "p2p_deadlock"


def test_batched_exchanges_have_both_halves_and_are_no_circle() -> None:
    job = Sketch()
    job.ranks().at(c10d("batch_isend_irecv", "swap halo.py:9"))
    assert "p2p_deadlock" not in kinds(job.verdict())


def test_a_send_that_meets_its_receive_is_no_circle() -> None:
    job = Sketch()
    job.ranks(0, 1).at(BACKWARD)
    job.ranks(2).at(c10d("send", "swap halo.py:9"), arguments={"dst": "3"})
    job.ranks(3).at(c10d("recv", "swap halo.py:12"), arguments={"src": "2"})
    assert "p2p_deadlock" not in kinds(job.verdict())


def test_moving_ranks_at_different_operations_are_healthy() -> None:
    job = Sketch()
    job.ranks(0, 1, 2).at(BACKWARD, ALL_REDUCE).pulse(switches=30, cores=0.3)
    job.ranks(3).at(BARRIER, BACKWARD).pulse(switches=30, cores=0.3)
    assert alarms(job.verdict()) == []


def test_one_that_went_on_to_the_whole_job_is_odd_among_those_that_wait_in_groups_of_theirs() -> None:
    job = Sketch()
    job.ranks(0, 2).at(c10d("all_reduce", "tensor_sum layers.py:9"), arguments={"group_given": "yes"})
    job.ranks(3).at(c10d("reduce_scatter_tensor", "shard_sum layers.py:40"), arguments={"group_given": "yes"})
    job.ranks(1).at(c10d("barrier", "checkpoint_step train.py:30"), arguments={"group_given": "no"})
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("collective_mismatch", (1,))
