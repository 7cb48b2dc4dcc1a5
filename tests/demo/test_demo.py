"""The demo from end to end: real ranks, embedded servers, a planted fault, and nothing left behind however it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.torch


def wait_until(happened: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, "what was waited for did not happen"
        time.sleep(0.05)


def processes_of(folder: Path) -> list[str]:
    """Commands of the processes that belong to a demo: its folder is in their words or their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            words = " ".join([*process.cmdline(), *process.environ().values()])
            if str(folder) in words and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


HOLD = """
import sys, time
from hangtop.demo.demo import Demo
with Demo() as demo:
    print(demo.folder, demo._host.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("victim", ["watcher", "host"])
def test_a_kill_leaves_nothing_behind(victim: str) -> None:
    watcher = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
    assert watcher.stdout is not None
    try:
        name, host = watcher.stdout.readline().split()
        folder = Path(name)
        assert len(processes_of(folder)) >= 5  # the ranks and who cleans up
        os.kill(watcher.pid if victim == "watcher" else int(host), signal.SIGKILL)
        wait_until(lambda: not folder.exists() and processes_of(folder) == [], 40)
    finally:
        watcher.kill()
        watcher.wait()
        watcher.stdout.close()
