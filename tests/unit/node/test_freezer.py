"""A process that cgroup v1 has frozen is told apart from one that is stuck in the kernel; for real where it may be."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.node.processes import cgroup as groups
from collectors.node.processes import process_state
from collectors.node.processes.cgroup import parse_controller
from collectors.node.processes.procfs import parse_status, read_stat
from collectors.node.ranks.process_metrics import HeldFiles, rank_pulse
from tests.support.fake_proc import FakeProc

V1 = "9:freezer:/batch/job_7\n4:cpu,cpuacct:/\n0::/\n"


def test_where_the_freezer_has_a_process() -> None:
    assert parse_controller(V1.encode(), "freezer") == "/batch/job_7"
    assert parse_controller(b"12:freezer,foo:/\n0::/x\n", "freezer") == "/"
    assert parse_controller(b"1:name=freezer:/x\n0::/freezer\n", "freezer") is None


@pytest.mark.parametrize(
    ("state", "cgroup", "freezer_state", "told"),
    [
        ("D", V1, "FROZEN", "__refrigerator"),
        ("D", V1, "THAWED", "hrtimer_nanosleep"),
        ("D", V1, "FREEZING", "hrtimer_nanosleep"),
        ("S", V1, "FROZEN", "hrtimer_nanosleep"),
        ("D", "0::/\n", "FROZEN", "hrtimer_nanosleep"),
    ],
)
def test_only_who_sleeps_uninterruptibly_in_a_frozen_group_is_frozen(
    state: str, cgroup: str, freezer_state: str, told: str, tmp_path: Path
) -> None:
    proc = FakeProc(tmp_path / "proc")
    proc.add(50, cgroup=cgroup)
    folder = tmp_path / "sys" / "fs" / "cgroup" / "freezer" / "batch" / "job_7"
    folder.mkdir(parents=True)
    (folder / "freezer.state").write_text(freezer_state + "\n")
    assert groups.place(50, state, "hrtimer_nanosleep", str(proc.root), str(tmp_path / "sys")) == told


@pytest.fixture
def group() -> Iterator[Path]:
    """A group of the freezer of the test's own; whoever is in it is thawed, and then ended."""
    folder = Path(f"/sys/fs/cgroup/freezer/hangtop-test-{os.getpid()}")
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"cgroup v1 has no freezer here that may be used: {error}")
    try:
        yield folder
    finally:
        (folder / "freezer.state").write_text("THAWED")
        deadline = time.monotonic() + 10
        while members := (folder / "cgroup.procs").read_text().split():
            assert time.monotonic() < deadline
            for pid in members:
                os.kill(int(pid), signal.SIGKILL)
                os.waitpid(int(pid), 0)
        folder.rmdir()


def test_a_real_process_is_seen_frozen(group: Path) -> None:
    process = subprocess.Popen(["sleep", "60"])
    (group / "cgroup.procs").write_text(str(process.pid))
    (group / "freezer.state").write_text("FROZEN")
    deadline = time.monotonic() + 30
    while (seen := process_state.of(process.pid)) is None or seen.wchan != groups.REFRIGERATOR:
        assert time.monotonic() < deadline, seen
        time.sleep(0.02)
    stat, status = read_stat("/proc", process.pid), Path(f"/proc/{process.pid}/status").read_bytes()
    found = parse_status(status, process.pid)
    assert stat is not None
    assert found is not None
    pulse = rank_pulse("/proc", process.pid, HeldFiles("/proc", process.pid), stat, found, 0.0)
    assert (pulse.state, pulse.wchan) == ("D", groups.REFRIGERATOR)
    process.returncode = -9  # its group's end ends it
