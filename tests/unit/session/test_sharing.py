"""Equal values of many ranks are one; nothing is changed by it."""

from __future__ import annotations

import msgspec

from collectors.samples.collectives import RecorderDump
from collectors.samples.gpus import GpuProcess, GpuProcesses
from collectors.samples.ranks import RankProcess
from collectors.samples.stacks import Frame, StackDump
from hangtop.session.state.sharing import shared, shared_dump, shared_stack
from tests.support.made import process, stack
from tests.support.screens import Paper


def told(sample: RankProcess | GpuProcesses) -> RankProcess | GpuProcesses:
    """The sample as it comes from a node: of new objects throughout."""
    return msgspec.json.decode(msgspec.json.encode(sample), type=type(sample))


def test_what_ranks_have_in_common_is_one_object() -> None:
    sample = process(0, command="python train.py --lr 1e-4", world_size=10_000, env={"NCCL_DEBUG": "WARN"})
    first, second = shared(told(sample)), shared(told(sample))
    assert isinstance(first, RankProcess)
    assert isinstance(second, RankProcess)
    assert first == second == sample
    assert first.command is second.command
    assert first.env is second.env


def test_what_differs_stays_apart() -> None:
    first, second = (shared(process(rank, env={"CUDA_VISIBLE_DEVICES": str(rank)})) for rank in (0, 1))
    assert (first.env["CUDA_VISIBLE_DEVICES"], second.env["CUDA_VISIBLE_DEVICES"]) == ("0", "1")
    assert (first.rank, second.rank) == (0, 1)
    assert first.restart is None


def test_processes_on_gpus_are_shared_within_their_list() -> None:
    processes = GpuProcesses([GpuProcess("0000:01:00", 1, None, None, "python -u") for _ in range(2)])
    now = shared(told(processes))
    assert isinstance(now, GpuProcesses)
    assert now == processes
    assert now.processes[0].name is now.processes[1].name


def test_frames_of_ranks_at_one_point_are_one_object() -> None:
    called = Frame("all_reduce", "torch.py", 9, False, {"group": "<ProcessGroup at 0x7f>"})
    dump = stack(7, "read_shard", "train")
    dump = dump._replace(threads=[dump.threads[0]._replace(frames=[called, *dump.threads[0].frames])])
    first, second = (shared_stack(msgspec.json.decode(msgspec.json.encode(dump), type=StackDump)) for _ in range(2))
    assert first == second == dump
    mine, theirs = first.threads[0].frames, second.threads[0].frames
    assert [one is other for one, other in zip(mine, theirs, strict=True)] == [False, True, True]


def test_ranks_of_a_group_are_one_list_for_all_dumps_that_name_them() -> None:
    first, second = (
        RecorderDump(rank, "2.9", f"node0:/tmp/fr_{rank}", None, {"0": list(range(4)), "1": [rank]}, [], [])
        for rank in (0, 1)
    )
    one, two = shared_dump(first), shared_dump(second)
    assert (one, two) == (first, second)
    assert one.groups["0"] is two.groups["0"]
    assert one.groups["1"] == [0]
    assert two.groups["1"] == [1]
    session = Paper().session()
    session.witness(first)
    assert session.state.recorders[0].groups["0"] is one.groups["0"]
