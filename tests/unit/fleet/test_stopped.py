"""What ends a node side that was stopped: it, and nothing else that has its number."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from collectors.fleet import payload, stopped
from tests.support.orphans import wait_for_state


def kill(pid: int) -> int:
    return subprocess.run(["sh", "-c", stopped._KILL, "sh", str(pid)], capture_output=True, check=False).returncode


@pytest.mark.parametrize("nice", [True, False])
def test_a_program_of_ours_that_is_stopped_ends(nice: bool) -> None:
    with subprocess.Popen(payload.command(sys.executable, nice=nice), stdin=subprocess.PIPE) as process:
        process.send_signal(signal.SIGSTOP)
        assert wait_for_state(process.pid, "T")
        assert kill(process.pid) == 0
        assert process.wait(5) == -signal.SIGKILL


@pytest.mark.parametrize("words", [["sleep", "60"], [sys.executable, "-c", "import time; time.sleep(60)", "hangtop"]])
def test_another_that_has_its_number_goes_on(words: list[str]) -> None:
    with subprocess.Popen(words) as process:
        assert kill(process.pid) != 0
        assert process.poll() is None
        process.kill()


def test_one_that_is_gone_is_no_matter() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert kill(process.pid) != 0
