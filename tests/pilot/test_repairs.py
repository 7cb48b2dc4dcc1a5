"""The key that mends: it lists what can be mended, shows each command, and does nothing that was not said yes to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from collectors.fleet.local import Local
from collectors.fleet.transport import Transport
from tests.support import orphans
from tests.support.made import process
from tests.support.piloted import screen
from tests.support.screens import NOW, Paper, PaperSession

ENV = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_PORT": "29500"}


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A rank of this machine that somebody stopped; nothing else of the machine is seen."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv("HANGTOP_ONLY", orphans.only(mark)["HANGTOP_ONLY"])
    rank = subprocess.Popen([sys.executable, "-S", "-c", orphans.SLEEP, "train.py"],
                            env={**os.environ, **ENV, orphans.MARK: mark}, stdout=subprocess.PIPE)  # fmt: skip
    assert rank.stdout is not None
    rank.stdout.readline()
    os.kill(rank.pid, signal.SIGSTOP)
    assert orphans.wait_for_state(rank.pid, "T")
    yield rank.pid
    rank.kill()
    rank.communicate()


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> PaperSession:
    """A session whose one node is this machine."""

    def here(_session: PaperSession, node: str) -> Transport:
        return Local(node)

    monkeypatch.setattr(PaperSession, "transport", here)
    monkeypatch.setattr(PaperSession, "python", lambda _session, _node: sys.executable)
    return Paper(nodes=1, gpus=1).session()


async def test_a_stopped_rank_goes_on_when_it_was_said_yes_to(session: PaperSession, stopped: int) -> None:
    session.samples("node1", [process(0, stopped, started=NOW - 60, world_size=1)])
    async with screen(session) as shown:
        await shown.press("K")
        assert "What can be mended now" in shown.text()
        assert f"Continue stopped node1:{stopped}" in shown.text()
        await shown.press("enter")
        assert "1 process on 1 node, SIGCONT" in shown.text()
        await shown.press("e")
        assert f"kill -CONT {stopped}" in shown.text()
        assert "python3 -I -S -B -u -c" in shown.text()
        await shown.press("n")
        assert orphans.state_of(stopped) == "T"
        await shown.press("K")
        await shown.press("enter", "y")
        assert "it goes on" in shown.text()
    assert orphans.state_of(stopped) != "T"
