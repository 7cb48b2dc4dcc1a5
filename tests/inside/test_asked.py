"""From the key to the finding: a question on the pages of real ranks, answered at the end of a step."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from collectors.fleet.local import Local
from collectors.node.processes.pages import PageSource
from collectors.node.shared import Shared
from collectors.samples.inside import InsidePulse, InsideResult
from collectors.samples.logs import StepCount
from collectors.samples.stream import Tick
from hangtop.session.asking.inside import COSTS, InsideRefused, ask_ranks, plan
from tests.support.made import process
from tests.support.piloted import screen
from tests.support.screens import NOW, Paper, PaperSession
from tests.support.torch_ranks import free_port
from tui.handlers.inside import TITLES

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.torch


@pytest.fixture
def pids() -> Iterator[list[int]]:
    pytest.importorskip("torch")
    port = str(free_port())
    env = {**os.environ, "PYTHONPATH": str(ROOT), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    words = [sys.executable, "-m", "tests.support.inside_job", "fault"]
    ranks = [
        subprocess.Popen(words, env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, cwd=ROOT)
        for rank in range(2)
    ]  # fmt: skip
    for rank in ranks:
        assert rank.stdout is not None
        assert rank.stdout.readline() == b"up\n"
    yield [rank.pid for rank in ranks]
    for rank in ranks:
        rank.kill()
        rank.communicate()


def told(session: PaperSession, source: PageSource, began: float) -> None:
    """Let the pages of this machine come in as node1's, half a minute before the session's own standing clock.

    ``began`` is when the test did: it takes less than that.
    """
    samples = list(source.look(time.time()))
    shift = began - NOW + 30.0
    told = [s._replace(at=s.at - shift) if isinstance(s, StepCount) and s.at else s for s in samples]
    session.samples("node1", [*told, Tick(1, NOW, 0.01, 0.1, 9 << 20)], 1)


def stepped(session: PaperSession, pid: int) -> int | None:
    inside = session.state.nodes["node1"].ranks[pid].inside
    return None if inside is None else inside.pulse.step


@pytest.mark.slow
async def test_a_key_asks_and_the_answer_is_a_finding(monkeypatch: pytest.MonkeyPatch, pids: list[int]) -> None:
    monkeypatch.setattr(PaperSession, "transport", lambda _session, node: Local(node))
    monkeypatch.setattr(PaperSession, "python", lambda _session, _node: sys.executable)
    began = time.time()
    session = Paper(nodes=1, gpus=1).session()
    ranks = [process(rank, pid, world_size=2, uid=os.getuid(), started=NOW - 60) for rank, pid in enumerate(pids)]
    session.samples("node1", ranks, 1)
    shared = Shared()
    shared.ranks = tuple(ranks)
    source = PageSource(shared)
    for pid in [pid for pid in session.state.nodes["node1"].ranks if pid not in pids]:
        del session.state.nodes["node1"].ranks[pid]
    told(session, source, began)
    until = time.monotonic() + 20
    while len({stepped(session, pid) for pid in pids} - {None, 0}) == 0 and time.monotonic() < until:
        await asyncio.sleep(0.1)
        told(session, source, began)
    await asyncio.sleep(1.0)
    told(session, source, began)
    async with screen(session) as shown:
        await shown.press("C")
        assert "Compare replicas bit by bit" in shown.text()
        await shown.press("enter")
        assert "2 ranks, check same at the end of step" in shown.text(), shown.notices()
        assert "All 2 ranks stop for it" in shown.text()
        await shown.press("y")
        assert any("2 ranks asked for check same" in notice for notice in shown.notices())
    until = time.monotonic() + 20
    found: list[InsideResult] = []
    while time.monotonic() < until and not found:
        await asyncio.sleep(0.1)
        told(session, source, began)
        inside = session.state.nodes["node1"].ranks[pids[0]].inside
        found = [] if inside is None else list(inside.results)
    (result,) = found
    assert (result.check, result.ok, result.ranks) == ("same", False, [0, 1])
    assert result.findings[0].summary == "weight differs on rank 1 from that of rank 0"
    assert "1 of 64 elements, the first at [3, 4]" in result.findings[0].evidence[0]
    assert result.number > 0


def test_every_check_has_a_title_and_a_cost() -> None:
    assert list(TITLES) == list(COSTS)


async def test_a_job_that_cannot_answer_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Paper(nodes=1, gpus=2).session()
    with pytest.raises(InsideRefused, match="no rank tells its steps"):
        plan(session.job(), "same", None)
    node = session.state.nodes["node1"]
    first, *_ = node.ranks
    session.samples("node1", [InsidePulse(first, 7, NOW - 1, "data", NOW - 1)], 1)
    with pytest.raises(InsideRefused, match="would not come: they tell no steps"):
        plan(session.job(), "same", None)
    for pid in node.ranks:
        session.samples("node1", [InsidePulse(pid, 7, NOW - 1, "data", NOW - 1)], 1)
    with pytest.raises(InsideRefused, match="not yet known how long a step takes"):
        plan(session.job(), "same", None)
    order = plan(session.job(), "same", 0.1)
    assert order.at_step == 67
    monkeypatch.setattr(PaperSession, "transport", lambda *_: pytest.fail("it reached for a node"))
    session.options = replace(session.options, read_only=True)
    with pytest.raises(InsideRefused, match="--read-only"):
        await ask_ranks(session, order)
