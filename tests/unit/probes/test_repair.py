"""Repairs: signals that reach the process that was seen and no other, and only after a yes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from collectors.node.processes.procfs import CLOCK_TICKS, boot_time
from collectors.probes.remote.repair import SignalTarget, continue_all, end_all
from collectors.samples.stream import SourceState
from hangtop.session.probes import ProbeRefused
from hangtop.session.probes.repair import Repairable, send_signals, signal_probe, survey
from tests.support.here import here
from tests.support.screens import NOW, Paper, PaperSession

# --- signals -----------------------------------------------------------------------------------------------------

SLEEP = "print(flush=True); import time; time.sleep(600)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    running: list[subprocess.Popen[bytes]] = []

    def run(source: str = SLEEP) -> subprocess.Popen[bytes]:
        child = subprocess.Popen([sys.executable, "-S", "-c", source], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        running.append(child)
        return child

    yield run
    for child in running:
        child.kill()
        child.communicate()


def stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def started(pid: int) -> float:
    return boot_time() + int(stat(pid)[19]) / CLOCK_TICKS


def comes_to(pid: int, state: str) -> bool:
    """Whether a process came into this state in time."""
    until = time.monotonic() + 30
    while stat(pid)[0] != state and time.monotonic() < until:
        time.sleep(0.01)
    return stat(pid)[0] == state


def target(pid: int, later: float = 0.0) -> SignalTarget:
    return SignalTarget(pid, started(pid) + later)


def test_term_ends_one_and_kill_the_deaf_one(start: Start) -> None:
    willing, deaf = start(), start(DEAF)
    answers = end_all([target(willing.pid), target(deaf.pid)], 0.2)
    assert [one.outcome for one in answers] == ["terminated", "killed"]
    assert (willing.wait(60), deaf.wait(60)) == (-signal.SIGTERM, -signal.SIGKILL)


def test_a_pid_that_is_anothers_now_gets_nothing(start: Start) -> None:
    child = start()
    (answer,) = end_all([target(child.pid, later=60)], 0.1)
    assert (answer.outcome, comes_to(child.pid, "S")) == ("reused", True)
    os.kill(child.pid, signal.SIGSTOP)
    assert comes_to(child.pid, "T")
    (answer,) = continue_all([target(child.pid, later=60)])
    assert (answer.outcome, stat(child.pid)[0]) == ("reused", "T")
    (answer,) = continue_all([target(child.pid)])
    assert answer.outcome == "continued"


async def test_the_program_signals_on_a_node(start: Start) -> None:
    child = start()
    targets = [(child.pid, started(child.pid)), (1 << 22, 5.0)]
    answers = await send_signals(here(), "TERM", targets, grace=0.5)
    assert [(one.pid, one.outcome) for one in answers] == [(child.pid, "terminated"), (1 << 22, "gone")]
    assert child.wait(60) == -signal.SIGTERM


# --- a session's repairs -----------------------------------------------------------------------------------------


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> PaperSession:
    monkeypatch.setattr(PaperSession, "transport", lambda _session, node: here(node))
    monkeypatch.setenv("HANGTOP_ONLY", "HX_NOBODY=1")
    return Paper(nodes=2, gpus=1).session()


def test_on_a_node_whose_ranks_are_not_known_nothing_is_proposed(session: PaperSession) -> None:
    session.samples("node2", [SourceState("ranks", "denied", "processes of other users", NOW)])
    found = survey(session.job())
    assert (found.orphans, found.stopped, found.unknown[0].nodes) == ((), (), ("node2",))
    assert "which ranks are the job's is not known there" in found.unknown[0].why


async def test_a_session_that_may_only_look_signals_nobody(
    session: PaperSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.options = replace(session.options, read_only=True)
    monkeypatch.setattr(PaperSession, "transport", lambda *_: pytest.fail("it reached for a node"))
    one = Repairable("node1", 812, 0, 0.0, "rank 0: train.py", "its launcher is gone")
    with pytest.raises(ProbeRefused, match="--read-only"):
        await signal_probe(session, "TERM", [one]).run(print)


async def test_where_there_is_nothing_to_mend_the_answer_names_the_nodes(session: PaperSession) -> None:
    assert (await signal_probe(session, "TERM", []).run(print)).summary == "nothing to mend on node[1-2]"
