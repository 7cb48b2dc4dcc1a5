"""Kills that control groups count: those of the ranks, once each, and none of others; a real one where it may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectors.node.machine.kernel import KernelSource
from collectors.node.machine.oom_counts import OomCounts
from collectors.node.source import Denied, Shared
from collectors.samples.logs import LogEvent
from tests.support.fake_proc import FakeProc
from tests.support.looks import look
from tests.support.made import process

OWN = "/kubepods/pod7/main"


class Bench:
    """Processes, groups with counters, and what looks at them."""

    def __init__(self, folder: Path) -> None:
        self.proc = FakeProc(folder / "proc")
        self.sys = folder / "sys"
        self.counts = OomCounts(str(folder / "proc"), str(self.sys))

    def group(self, path: str, kills: int) -> None:
        folder = self.sys / "fs" / "cgroup" / path.strip("/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.events").write_text(f"low 0\nhigh 0\nmax 9\noom 2\noom_kill {kills}\noom_group_kill 0\n")

    def rank(self, pid: int, cgroup: str) -> Any:
        self.proc.add(pid, cgroup=f"0::{cgroup}\n")
        return process(0, pid=pid)

    def told(self, *ranks: Any) -> list[tuple[object, object]]:
        found = list(self.counts.read(ranks, 7.0))
        assert all(event.kind == "cgroup.oom_kill" and event.at == 7.0 for event in found)
        return [(event.data["cgroup"], event.data["kills"]) for event in found]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    for path, kills in (("/kubepods", 40), ("/kubepods/pod7", 3), (OWN, 3)):
        made.group(path, kills)
    return made


def test_what_was_killed_before_is_not_told_and_each_kill_once(bench: Bench) -> None:
    ranks = bench.rank(50, OWN), bench.rank(51, OWN)
    assert bench.told(*ranks) == []
    bench.group(OWN, 5)
    bench.group("/kubepods/pod7", 5)
    assert bench.told(*ranks) == [(OWN, 2)]
    assert bench.told() == []
    bench.group(OWN, 6)
    assert bench.told() == [(OWN, 1)], "its ranks may be gone"


def test_a_group_that_goes_with_its_ranks_is_counted_above_once(bench: Bench) -> None:
    assert bench.told(bench.rank(50, OWN)) == []
    (bench.sys / "fs" / "cgroup" / OWN.strip("/") / "memory.events").unlink()
    bench.group("/kubepods/pod7", 4)
    bench.group("/kubepods", 41)
    assert bench.told() == [("/kubepods/pod7", 1)]
    bench.group("/kubepods/pod7", 5)
    assert bench.told() == []
    assert bench.counts._counts == {}


def test_the_source_tells_them_where_the_log_is_refused(bench: Bench, tmp_path: Path) -> None:
    source = KernelSource(Shared(), str(bench.proc.root), str(bench.sys), str(tmp_path / "no log"))
    source.shared.ranks = (bench.rank(50, OWN),)
    samples, error = look(source)
    assert (samples, type(error)) == ([], Denied)
    bench.group(OWN, 4)
    (event,), _ = look(source)
    assert isinstance(event, LogEvent)
    assert source.retry == source.period
