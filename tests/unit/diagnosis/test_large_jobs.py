"""Jobs of thousands of ranks are judged by a part of what is kept of them: the same as of all where they are alike."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, ClassVar

import pytest

from collectors.samples.collectives import RecorderDump
from collectors.samples.gpus import GpuFacts, GpuSample
from hangtop.diagnosis.evidence import gpu_load
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.groups import edges
from hangtop.diagnosis.groups.groups import Group, Groups
from hangtop.diagnosis.job import Gpu, Job, JobMotion, Look, Node, Rank
from hangtop.diagnosis.rules import gpu_speed
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, MOVING, NOW, READING, Sketch, collective
from tests.support.jobs import gpu as sketched_gpu
from tests.support.made import gpu_row

FACTS = GpuFacts(0, "GPU-0", "00000000:01:00.0", "NVIDIA H100", "550.54", 80 << 30, 700.0, 1980, 5, 16, "")


def few(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let a job be large from so many ranks or GPUs on."""
    for module in (gpu_load, gpu_speed):
        monkeypatch.setattr(module, "FEW", number)


def gpu(index: int, *rows: GpuSample) -> Gpu:
    """A GPU and its looks, one a second."""
    looks = tuple(Look(NOW - len(rows) + place, row) for place, row in enumerate(rows))
    return Gpu(index, FACTS._replace(gpu=index), looks)


def busy(index: int, **fields: object) -> GpuSample:
    """A row under load."""
    return gpu_row(index, utilization=99, **{"sm_clock": 1900, "pcie_gen": 5, "pcie_width": 16, **fields})


def slow_gpus() -> Job:
    """Twelve GPUs: one is throttled, one has a narrow link, one was throttled once."""
    throttled, narrow = busy(3, event_reasons=0x48, sm_clock=900), busy(5, pcie_width=8)
    gpus = [gpu(index, *[busy(index)] * 6) for index in range(12)]
    gpus[3] = gpu(3, *[throttled] * 6)
    gpus[5] = gpu(5, *[narrow] * 6)
    gpus[7] = gpu(7, throttled._replace(gpu=7), *[busy(7)] * 5)
    return Job(NOW, 60.0, True, nodes={"node1": Node("node1", gpus=tuple(gpus))})


def told(job: Job) -> list[Finding]:
    """What the rules about slow GPUs say."""
    return [*gpu_speed.gpu_throttled(job), *gpu_speed.gpu_pcie_degraded(job)]


def test_gpus_that_are_slow_now_are_found_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    of_all = told(slow_gpus())
    few(monkeypatch, 4)
    assert told(slow_gpus()) == of_all
    assert [finding.kind for finding in of_all] == ["gpu_throttled", "gpu_pcie_degraded"]


def dump(rank: int, last: int, ranks: int) -> RecorderDump:
    """A rank that has launched the all_reduces up to ``last`` of a group of so many, and waits in it."""
    launched = [collective(rank, seq, done=seq < last) for seq in range(1, last + 1)]
    return RecorderDump(rank, "2.10", f"node1:/tmp/fr_{rank}", NOW - 12, {"0": list(range(ranks))}, [], launched)


def test_what_thousands_of_waiting_ranks_have_in_common_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Group, int]] = []
    spread = edges.spread

    def counted(given: edges.Recorded, group: Group, seq: int) -> bool:
        asked.append((group, seq))
        return spread(given, group, seq)

    monkeypatch.setattr(edges, "spread", counted)
    dumps = [dump(rank, 4 if rank == 5 else 5, 200) for rank in range(200)]
    found = edges.by_recorders(edges.recorded(dumps))
    assert {edge.waiter for edge in found if edge.why == "not launched"} == set(range(200)) - {5}
    assert {edge.for_ranks for edge in found} == {(5,)}
    assert len(asked) == 1
    assert len({id(edge.for_ranks) for edge in found}) == 1


def test_members_of_one_group_have_one_object_of_it_and_twins_by_name_have_two() -> None:
    low, high = list(range(4)), list(range(4, 8))
    groups = Groups(dump(rank, 1, 8)._replace(groups={"tp": list(low if rank < 4 else high)}) for rank in range(8))
    assert len({id(groups.of(rank, "tp")) for rank in range(4)}) == 1
    assert groups.of(0, "tp") != groups.of(4, "tp")
    assert {groups.of(rank, "tp").ranks for rank in range(8)} == {tuple(low), tuple(high)}


class CountedRank(Rank):
    """A rank that counts how often something of any is read."""

    __slots__ = ()
    reads: ClassVar[int] = 0

    def __getattribute__(self, name: str) -> Any:
        CountedRank.reads += 1
        return super().__getattribute__(name)


def reads_of(nodes: int, *, hangs: bool) -> int:
    """How often a diagnosis reads something of a rank, of a job with so many nodes, each with two ranks and a GPU."""
    job = Sketch(world=2 * nodes, nodes=nodes, motion=JobMotion() if hangs else MOVING)
    if hangs:
        job.ranks().at(ALL_REDUCE)
        job.ranks(3).at(READING)
    for name in tuple(job.made_nodes):
        job.node(name, gpus=(sketched_gpu(0, [{}] * 3, pids=[1, 2]),))
    made = job.job()
    ranks = tuple(CountedRank(**{each.name: getattr(rank, each.name) for each in fields(rank)}) for rank in made.ranks)
    CountedRank.reads = 0
    assert diagnose(replace(made, ranks=ranks)).outcome == ("hung" if hangs else "healthy")
    return CountedRank.reads


@pytest.mark.parametrize("hangs", [False, True])
def test_no_rule_goes_through_all_ranks_for_each_node(hangs: bool) -> None:
    """One did: at 2,048 nodes that was most of a verdict. Eight times the nodes are read eight times as often."""
    assert reads_of(128, hangs=hangs) < 9 * reads_of(16, hangs=hangs)
