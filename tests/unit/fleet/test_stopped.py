"""What ends a node side that was stopped: it, and nothing else that has its number."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from collectors.fleet import payload, stopped
from tests.support.node_agent import wait_gone
from tests.support.orphans import wait_for_state


def kill(pid: int) -> None:
    subprocess.run(["sh", "-c", stopped._KILL, "sh", str(pid)], capture_output=True, check=True)


@pytest.mark.parametrize("nice", [True, False])
def test_a_program_of_ours_that_is_stopped_ends(nice: bool) -> None:
    with subprocess.Popen(payload.command(sys.executable, nice=nice), stdin=subprocess.PIPE) as process:
        process.send_signal(signal.SIGSTOP)
        assert wait_for_state(process.pid, "T")
        kill(process.pid)
        assert process.wait(60) == -signal.SIGKILL


@pytest.mark.parametrize("words", [["sleep", "60"], [sys.executable, "-c", "import time; time.sleep(60)", "hangtop"]])
def test_another_that_has_its_number_goes_on(words: list[str]) -> None:
    with subprocess.Popen(words) as process:
        kill(process.pid)
        assert process.poll() is None
        process.kill()


def test_one_that_is_gone_is_no_matter() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    kill(process.pid)


SERVER = """\
import ctypes, json, signal, subprocess, sys, time
ctypes.CDLL(None).prctl(15, b"sshd-session", 0, 0, 0)
ours, script, shell = json.loads(sys.argv[1])
started = [subprocess.Popen(words, stdin=subprocess.PIPE) for words in (ours, ours, ["sleep", "60"])]
wrapped = subprocess.Popen(["sh", "-c", '"$@"; true', "sh", *ours], stdin=subprocess.PIPE)
def runs(pid):
    return open(f"/proc/{pid}/cmdline").read().endswith("\\x00".join(ours[-2:]) + "\\x00")
inner = []
while not (inner and all(map(runs, (started[0].pid, started[1].pid, *inner)))):
    time.sleep(0.01)
    inner = [int(n) for n in open(f"/proc/{wrapped.pid}/task/{wrapped.pid}/children").read().split()]
for pid in (*(one.pid for one in started), *inner):
    subprocess.run(["kill", "-STOP", str(pid)], check=True)
subprocess.run([*shell, "sh", "-c", script, "sh", str(started[0].pid)], check=False)
started[2].send_signal(signal.SIGCONT)
gone = [one.wait(60) for one in (*started[:2], wrapped)]
print(json.dumps([gone, started[2].poll(), inner]), flush=True)
started[2].kill()
"""


@pytest.mark.parametrize("shell", [[], ["sh", "-c", '"$@"; true', "sh"]], ids=["", "login shell between"])
def test_all_of_ours_that_its_sshd_has_started_end_and_nothing_else(shell: list[str]) -> None:
    asked = json.dumps([payload.command(sys.executable), stopped._KILL, shell])
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, asked], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        try:
            out, _ = server.communicate(timeout=60)
        finally:
            server.kill()
    gone, other, inner = json.loads(out)
    assert gone == [-signal.SIGKILL] * 3
    assert other is None
    assert inner
    wait_gone(inner)
