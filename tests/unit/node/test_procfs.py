"""Parsers of /proc: right on the real thing, unharmed by anything else."""

import os
from pathlib import Path

import psutil
import pytest

from collectors.node.processes import procfs


def test_this_process_reads_itself() -> None:
    stat = procfs.parse_stat(Path("/proc/self/stat").read_bytes())
    assert stat is not None
    assert (stat.parent, stat.state) == (os.getppid(), "R")
    assert stat.rss > 1_000_000
    assert stat.cpu_user > 0
    started = procfs.boot_time() + stat.start_ticks / procfs.CLOCK_TICKS
    assert abs(started - psutil.Process().create_time()) < 2
    status = procfs.parse_status(Path("/proc/self/status").read_bytes(), 0)
    assert status is not None
    assert (status.uid, status.inner_pid) == (os.geteuid(), os.getpid())


@pytest.mark.parametrize("comm", ["python3", "a b", "x) R 1 (y", "(((", ")", "tab\there"])
def test_a_process_may_be_called_anything(comm: str) -> None:
    line = f"7 ({comm}) D 3 7 7 0 -1 0 1 0 0 0 250 50 0 0 20 0 4 0 1234 1 2 3 4".encode()
    stat = procfs.parse_stat(line)
    assert stat is not None
    assert (stat.comm, stat.state, stat.parent, stat.threads, stat.start_ticks) == (comm, "D", 3, 4, 1234)
    assert (stat.cpu_user * procfs.CLOCK_TICKS, stat.cpu_system * procfs.CLOCK_TICKS) == (250, 50)


def test_the_pid_inside_a_container_is_the_last_of_its_pids() -> None:
    data = b"Uid:\t0\t1000\t0\t0\nNSpid:\t4711\t20\t1\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n"
    assert procfs.parse_status(data, 4711) == procfs.ProcessStatus(1000, 1, 5, 6)


@pytest.mark.parametrize(
    ("data", "path", "name"),
    [
        (b"0::/user.slice/user-1000.slice/session-2.scope\n", "/user.slice/user-1000.slice/session-2.scope", ""),
        (b"4:memory:/docker/%s\n0::/\n" % (b"cd" * 32), "/", "cd" * 32),
        (b"0::/kubepods.slice/cri-containerd-%s.scope\n" % (b"ef" * 32),
         "/kubepods.slice/cri-containerd-" + "ef" * 32 + ".scope", "ef" * 32),
        (b"9:memory:/slurm/uid_7/job_42/step_0/task_1\n", "", "job_42/step_0"),
        (b"0::/lxc.payload.train/x\n", "/lxc.payload.train/x", "train"),
        (b"", "", ""),
    ],
)  # fmt: skip
def test_cgroups(data: bytes, path: str, name: str) -> None:
    assert procfs.parse_cgroup(data) == procfs.Cgroup(path, name)
