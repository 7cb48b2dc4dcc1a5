"""Signals reach the process that was seen, and nobody who has its number since."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from collectors.fleet.local import Local
from collectors.probes.repair import ask
from collectors.probes.repair.remote.act import SignalTarget, continue_all, end_all
from tests.support import orphans

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture(params=["pidfd", "numbers"])
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a pidfd, and as Python 3.8 does without."""
    if request.param == "numbers":
        monkeypatch.delattr(os, "pidfd_open")


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def run(source: str = orphans.SLEEP) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-S", "-c", source], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def target(pid: int, later: int = 0) -> SignalTarget:
    return SignalTarget(pid, orphans.start_ticks(pid) + later)


@pytest.mark.usefixtures("ways")
def test_term_ends_one_and_kill_the_deaf_one(start: Start) -> None:
    willing, deaf = start(), start(orphans.DEAF)
    said = end_all([target(willing.pid), target(deaf.pid)], 0.2)
    assert [one.outcome for one in said] == ["terminated", "killed"]
    assert (willing.wait(60), deaf.wait(60)) == (-signal.SIGTERM, -signal.SIGKILL)


@pytest.mark.usefixtures("ways")
def test_a_pid_that_is_anothers_now_gets_nothing(start: Start) -> None:
    process = start()
    (said,) = end_all([target(process.pid, later=1)], 0.1)
    assert (said.outcome, orphans.wait_for_state(process.pid, "S")) == ("reused", True)
    os.kill(process.pid, signal.SIGSTOP)
    assert orphans.wait_for_state(process.pid, "T")
    (said,) = continue_all([target(process.pid, later=1)])
    assert (said.outcome, orphans.state_of(process.pid)) == ("reused", "T")


async def test_the_program_does_it_on_a_node(start: Start) -> None:
    process = start()
    targets = [(process.pid, orphans.start_ticks(process.pid)), (1 << 22, 5)]
    said = await ask.send(Local("here"), sys.executable, "TERM", targets, grace=0.5)
    assert [(one.pid, one.outcome) for one in said] == [(process.pid, "terminated"), (1 << 22, "gone")]
    assert process.wait(60) == -signal.SIGTERM
