"""Since when a process sleeps, told by the kernel to those who come late."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.node.processes.procfs import ProcessStatus
from collectors.node.processes.slept import WaitStart, slept

SLEEPER = "import sys, time; sys.stdin.readline(); print(1, flush=True); time.sleep(60)"

pytestmark = pytest.mark.skipif(not Path("/proc/self/sched").exists(), reason="this kernel keeps no such notes")


@pytest.fixture
def sleeper() -> Iterator[tuple[int, float]]:
    """A process that goes to sleep now, and when that was."""
    with subprocess.Popen([sys.executable, "-c", SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        while "nanosleep" not in Path(f"/proc/{process.pid}/wchan").read_text():
            time.sleep(0.01)
        yield process.pid, time.time()
        process.kill()


def test_it_tells_when_a_process_went_to_sleep(sleeper: tuple[int, float]) -> None:
    pid, since = sleeper
    seconds = slept(f"/proc/{pid}/")
    assert seconds is not None
    assert time.time() - seconds == pytest.approx(since, abs=0.2)


def test_it_leaves_our_thread_on_its_processors(sleeper: tuple[int, float]) -> None:
    import os

    before = os.sched_getaffinity(0)
    slept(f"/proc/{sleeper[0]}/")
    assert os.sched_getaffinity(0) == before


def test_what_is_not_there_or_is_nonsense_is_unknown(tmp_path: Path) -> None:
    assert slept(f"{tmp_path}/") is None
    (tmp_path / "sched").write_text("se.exec_start : x\n")
    (tmp_path / "stat").write_text("1 (x) S 1")
    assert slept(f"{tmp_path}/") is None


def test_of_a_thread_that_has_not_run_since_it_was_given_another_cpu_it_is_unknown(
    sleeper: tuple[int, float], tmp_path: Path
) -> None:
    """The kernel notes 0 then, which is when the machine was started."""
    proc = Path(f"/proc/{sleeper[0]}")
    (tmp_path / "stat").write_bytes((proc / "stat").read_bytes())
    noted = (proc / "sched").read_text()
    (tmp_path / "sched").write_text(noted)
    assert slept(f"{tmp_path}/") is not None
    (tmp_path / "sched").write_text(re.sub(r"(se\.exec_start +: +)[\d.]+", r"\g<1>0.000000", noted))
    assert slept(f"{tmp_path}/") is None


def _status(voluntary: int, involuntary: int) -> ProcessStatus:
    return ProcessStatus(uid=0, inner_pid=1, voluntary_switches=voluntary, involuntary_switches=involuntary)


def test_a_wait_is_asked_about_once_and_forgotten_when_it_ends(sleeper: tuple[int, float]) -> None:
    pid, since = sleeper
    wait = WaitStart()
    told = [wait.since("/proc", pid, _status(5, 9), now=time.time()) for _ in range(5)]
    assert told[:2] == [None, None]
    assert told[2] == pytest.approx(since, abs=0.3)
    assert told[2:] == [told[2]] * 3
    assert wait.since("/proc", pid, _status(6, 9), now=time.time()) is None


def test_a_process_that_spins_is_not_asleep(sleeper: tuple[int, float]) -> None:
    wait = WaitStart()
    told = [wait.since("/proc", sleeper[0], _status(5, looks), now=time.time()) for looks in range(5)]
    assert told == [None] * 5
