"""The probe of collectives on the screen: progress while it runs, Escape stops it, the answer in the same place."""

from __future__ import annotations

import asyncio
from itertools import combinations
from pathlib import Path

import pytest

from collectors.probes.allreduce.run import AllreduceProbe
from collectors.samples.probes import ProbeFigure, ProbePair, ProbeRank, ProbeReport
from tests.support.piloted import Screen, screen
from tests.support.screens import NOW, Paper


def report(busbw: float) -> ProbeReport:
    names = [f"node{number}" for number in range(1, 5)]
    ranks = [ProbeRank(i, name, "done", "", 1.0) for i, name in enumerate(names)]
    pairs = [ProbePair(a, b, 0.05 if "node3" in (a, b) else busbw, 1e-4, 0.0, "") for a, b in combinations(names, 2)]
    figure = ProbeFigure("all_reduce", 1 << 20, 0.001, busbw / 1.5, busbw, [], [])
    ports = [
        ProbePair(f"node1:{port}", f"node3:{port}", speed, 1e-4, 0.0, "")
        for port, speed in (("eth0", 0.05), ("eth1", busbw))
    ]
    return ProbeReport("gloo", 4, NOW, 3.2, "done", "", ranks, [figure], pairs, 1e-4, {}, by_port=ports)


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Replaces the measuring: the first probe answers at once, later ones wait to be stopped. How each one ended."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    how: list[str] = []

    async def run(probe: AllreduceProbe) -> ProbeReport:
        probe._progress("pairs, round 1 of 3 \x1b[31m")
        if not how:
            how.append("answered")
            return report(4.8)
        if how == ["answered"]:
            how.append("answered again")
            return report(1.2)
        try:
            await asyncio.sleep(60)
        finally:
            how.append("cleaned up")
        raise AssertionError

    monkeypatch.setattr(AllreduceProbe, "run", run)
    return how


def session() -> Paper:
    return Paper(nodes=4, gpus=0)


async def go(shown: Screen) -> None:
    """Ask for the probe and confirm, without waiting for its end."""
    await shown.pilot.press("a", "y")
    await shown.pilot.pause(0.05)


async def test_the_answer_shows_figures_the_square_the_last_time_and_findings(ended: list[str]) -> None:
    async with screen(session().session()) as shown:
        await shown.press("a", "y")
        assert "Collective probe, gloo, 4 ranks, 3.2 s" in shown.text()
        assert "last time" not in shown.text()
        await shown.press("escape", "a", "y")
        assert "busbw 1.2 GB/s, last time 4.8" in shown.text()
        assert "slow_node" in shown.text()
        (row,) = [line for line in shown.lines() if "node3 " in line and "▁ 0.05" in line]
        assert row.count("▁ 0.05") == 3
        assert "ports of node3 (rows) with those of node1 (columns)" in shown.text()
        assert "it is port eth0 of node3" in shown.text()
        await shown.press("escape")
        assert "Collective probe" not in shown.text()
    assert ended == ["answered", "answered again"]


async def test_where_nothing_can_be_kept_the_session_remembers(
    ended: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    async with screen(session().session()) as shown:
        await shown.press("a", "y")
        assert "not kept for the next time" in shown.text()
        await shown.press("escape", "a", "y")
        assert "busbw 1.2 GB/s, last time 4.8" in shown.text()


async def test_escape_stops_it_and_it_cleans_up_first(ended: list[str]) -> None:
    ended += ["answered", "answered again"]
    async with screen(session().session()) as shown:
        await go(shown)
        assert "pairs, round 1 of 3" in shown.text()
        assert "Esc stop, and clean up on the nodes" in shown.text()
        await shown.press("escape")
        assert ended[-1] == "cleaned up"
        assert "CANCELLED  stopped on request" in shown.text()
        await shown.press("escape")
        assert "CANCELLED" not in shown.text()


async def test_leaving_hangtop_stops_it_too(ended: list[str]) -> None:
    ended += ["answered", "answered again"]
    async with screen(session().session()) as shown:
        await go(shown)
        assert ended[-1] == "answered again"
    assert ended[-1] == "cleaned up"


async def test_a_failure_is_said_and_takes_the_dialog_away(ended: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(probe: AllreduceProbe) -> ProbeReport:
        raise OSError("node1: no route to host")

    monkeypatch.setattr(AllreduceProbe, "run", fail)
    async with screen(session().session()) as shown:
        await go(shown)
        await shown.pilot.pause(0.05)
        assert "node1: no route to host" in shown.notices()
        assert len(shown.app.screen_stack) == 1
