"""Waiting for a CPU, as schedstat and control groups count it: on paper for both versions, and for real here."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.node.machine.cpu_groups import groups_of
from collectors.node.machine.cpu_waits import CpuSource
from collectors.node.processes.procfs import parse_controller, parse_nice, parse_run_delay, parse_unified, upward
from collectors.node.shared import Shared
from collectors.node.source import Absent
from collectors.samples.ranks import CpuWait, RankProcess
from tests.support.fake_proc import FakeProc
from tests.support.made import process

POD = "/kubepods/pod7"
OWN = POD + "/main"


class Bench:
    """One rank whose counters a test sets, and what looks at it."""

    def __init__(self, folder: Path) -> None:
        self.proc = FakeProc(folder / "proc")
        self.sys = folder / "sys"
        self.shared = Shared()
        self.source = CpuSource(self.shared, str(folder / "proc"), str(self.sys))
        self.shared.ranks = (self.rank(),)

    def rank(self, started: float = 1.0) -> RankProcess:
        return process(0, pid=50, started=started)

    def count(self, delay: float, cgroup: str = f"0::{OWN}\n") -> None:
        folder = self.proc.add(50, cgroup=cgroup)
        (folder / "schedstat").write_text(f"700 {int(delay * 1e9)} 9\n")
        with (folder / "status").open("a") as status:
            status.write("Cpus_allowed_list:\t0-3\n")

    def group(self, path: str, limit: str, periods: int = 0, throttled: int = 0) -> None:
        folder = self.sys / "fs" / "cgroup" / path.strip("/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpu.max").write_text(f"{limit} 100000\n")
        (folder / "cpu.stat").write_text(f"usage_usec 9\nnr_periods {periods}\nnr_throttled {throttled}\n")

    def look(self, at: float) -> list[CpuWait]:
        return [one for one in self.source.look(at) if isinstance(one, CpuWait)]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_rank_whose_pod_is_stopped(bench: Bench) -> None:
    for second in range(0, 12, 4):
        bench.group(OWN, "max")
        bench.group(POD, "50000", 10 * second, 9 * second)
        bench.count(0.7 * second)
        told = bench.look(1000.0 + second)
    assert told == [CpuWait(50, 70, "0-3", 0, POD, 0.5, 90)]


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


def test_where_nobody_waits_any_more_nobody_is_told_of(bench: Bench) -> None:
    bench.shared.ranks = (bench.rank(), process(1, pid=51, started=1.0))
    (bench.proc.add(51) / "schedstat").write_text("700 0 9\n")
    told = {}
    for second in range(0, 40, 4):
        bench.count(0.5 * min(second, 8))
        told[second] = [one.pid for one in bench.look(1000.0 + second)]
    assert told[8] == [50, 51]
    assert told[32] == told[36] == []


def test_of_several_limits_the_one_that_is_met(bench: Bench) -> None:
    for second in (0, 4, 8):
        bench.group(OWN, "400000", 10 * second, 0)
        bench.group(POD, "600000", 10 * second, 5 * second)
        bench.count(0.5 * second)
        told = bench.look(1000.0 + second)
    assert [(one.group, one.limit, one.throttled) for one in told] == [(POD, 6.0, 50)]


def test_version_1_and_a_clock_that_is_set_back(bench: Bench) -> None:
    folder = bench.sys / "fs" / "cgroup" / "cpu" / "job_7"
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text("30000\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    for number, at in enumerate((5000.0, 5004.0, 1000.0, 1004.0, 1008.0)):
        (folder / "cpu.stat").write_text(f"nr_periods {40 * number}\nnr_throttled {30 * number}\nthrottled_time 1\n")
        bench.count(2.0 * number, cgroup="5:cpu,cpuacct:/job_7\n4:memory:/x\n0::/\n")
        told = bench.look(at)
        assert bool(told) == (at == 1008.0)
    assert told == [CpuWait(50, 50, "0-3", 0, "/job_7", 0.3, 75)]


def test_another_process_under_the_same_pid_begins_anew(bench: Bench) -> None:
    for second in (0, 4, 8):
        bench.count(float(second))
        bench.look(1000.0 + second)
    bench.shared.ranks = (bench.rank(started=500.0),)
    bench.count(0.0)
    assert bench.look(1012.0) == []


def test_a_kernel_that_does_not_count_says_so(bench: Bench) -> None:
    folder = bench.proc.add(50)
    (folder / "schedstat").write_text("0 0 0\n")
    with pytest.raises(Absent, match="schedstat"):
        bench.look(1000.0)
    bench.shared.ranks = ()
    assert bench.look(1004.0) == [], "no rank, nothing to count"


def test_groups_by_their_line() -> None:
    both = b"9:name=systemd:/a\n3:cpuset:/b\n1:cpu,cpuacct:/c\n0::/d\n"
    assert (parse_controller(both, "cpu"), parse_unified(both)) == ("/c", "/d")
    assert (parse_controller(b"0::/d\n", "cpu"), parse_unified(b"0::/d\n")) == (None, "/d")
    assert (parse_controller(b"", "cpu"), parse_unified(b"")) == (None, "")
    assert [*upward("/a/b/")] == ["/a/b", "/a", ""]
    assert parse_nice(b"7 (a) b) S 1 7 7 0 -1 0 1 0 0 0 0 0 0 0 39 19 3 0 5\n") == 19
    assert parse_run_delay(b"1 " + b"9" * 5000 + b" 3") is None


@given(st.binary(max_size=200))
def test_whatever_a_kernel_writes(data: bytes) -> None:
    path = parse_controller(data, "cpu")
    assert path is None or isinstance(path, str)
    assert isinstance(parse_unified(data), str)
    delay = parse_run_delay(data)
    assert delay is None or delay >= 0.0
    assert -20 <= parse_nice(data) <= 19


@pytest.fixture
def limited() -> Iterator[Path]:
    """A real group of version 1 that may use 0.02 CPUs."""
    made = Path("/sys/fs/cgroup/cpu") / f"hangtop-test-{os.getpid()}"
    try:
        made.mkdir()
        (made / "cpu.cfs_quota_us").write_text("2000")
    except OSError as error:
        pytest.skip(f"no control group of CPU time may be made here: {error}")
    yield made
    made.rmdir()


def test_a_real_process_that_is_stopped_for_its_limit(limited: Path) -> None:
    spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        (limited / "cgroup.procs").write_text(str(spinner.pid))
        shared = Shared()
        shared.ranks = (process(0, pid=spinner.pid),)
        source = CpuSource(shared)
        for seconds in (1.0, 5.5):
            assert list(source.look(time.time())) == []
            time.sleep(seconds)
        (found,) = source.look(time.time())
        assert isinstance(found, CpuWait)
        assert (found.group, found.limit) == ("/" + limited.name, 0.02)
        assert found.throttled is not None
        assert found.throttled >= 50
        assert found.waited >= 40
        assert groups_of(Path(f"/proc/{spinner.pid}/cgroup").read_bytes(), "/sys")[0].periods > 0
    finally:
        spinner.kill()
        spinner.wait()
        deadline = time.monotonic() + 5.0
        while (limited / "cgroup.procs").read_text().strip() and time.monotonic() < deadline:
            time.sleep(0.05)
