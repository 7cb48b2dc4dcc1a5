"""Waiting for a CPU, as schedstat counts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.node.machine.cpu_waits import CpuSource
from collectors.node.source import Absent, Shared
from collectors.samples.ranks import CpuWait, RankProcess
from tests.support.fake_proc import FakeProc
from tests.support.made import process


class Bench:
    """One rank whose counters a test sets, and what looks at it."""

    def __init__(self, folder: Path) -> None:
        self.proc = FakeProc(folder / "proc")
        self.shared = Shared()
        self.source = CpuSource(self.shared, str(folder / "proc"))
        self.shared.ranks = (self.rank(),)

    def rank(self, started: float = 1.0) -> RankProcess:
        return process(0, pid=50, started=started)

    def count(self, delay: float) -> None:
        folder = self.proc.add(50)
        (folder / "schedstat").write_text(f"700 {int(delay * 1e9)} 9\n")
        with (folder / "status").open("a") as status:
            status.write("Cpus_allowed_list:\t0-3\n")

    def look(self, at: float) -> list[CpuWait]:
        return [one for one in self.source.look(at) if isinstance(one, CpuWait)]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_rank_that_waits_comes_with_its_cpus(bench: Bench) -> None:
    told: list[CpuWait] = []
    for second in range(0, 12, 4):
        bench.count(0.7 * second)
        told = bench.look(1000.0 + second)
    assert told == [CpuWait(50, 70, "0-3", 0)]


def test_one_that_gets_its_cpu_is_not_told_of_until_it_once_was(bench: Bench) -> None:
    for second in (0, 4, 8):
        bench.count(0.05 * second)
        assert bench.look(1000.0 + second) == []
    bench.count(4.0)
    assert [one.waited for one in bench.look(1012.0)] == [35]
    for second in (16, 20, 24):
        bench.count(4.0)
        told = bench.look(1000.0 + second)
    assert [one.waited for one in told] == [0], "what was told is taken back"


def test_beside_one_that_waits_the_others_are_told_of(bench: Bench) -> None:
    bench.shared.ranks = (bench.rank(), process(1, pid=51, started=1.0))
    (bench.proc.add(51) / "schedstat").write_text("700 0 9\n")
    for second in (0, 4, 8):
        bench.count(0.5 * second)
        told = bench.look(1000.0 + second)
    assert {one.pid: one.waited for one in told} == {50: 50, 51: 0}


def test_a_kernel_that_does_not_count_says_so(bench: Bench) -> None:
    folder = bench.proc.add(50)
    (folder / "schedstat").write_text("0 0 0\n")
    with pytest.raises(Absent, match="schedstat"):
        bench.look(1000.0)
    bench.shared.ranks = ()
    assert bench.look(1004.0) == [], "no rank, nothing to count"
