"""The probe of collectives on the screen: progress while it runs, Escape stops it, the answer in the same place."""

from __future__ import annotations

import asyncio
from itertools import combinations

import pytest

from collectors.probes.allreduce.run import AllreduceProbe
from collectors.samples.probes import ProbeFigure, ProbePair, ProbeRank, ProbeReport
from tests.support.piloted import Screen, screen
from tests.support.screens import NOW, Paper


def report(busbw: float) -> ProbeReport:
    names = [f"node{number}" for number in range(1, 5)]
    ranks = [ProbeRank(i, name, "done", "") for i, name in enumerate(names)]
    pairs = [ProbePair(a, b, 0.05 if "node3" in (a, b) else busbw, 0.0, "") for a, b in combinations(names, 2)]
    figure = ProbeFigure("all_reduce", 1 << 20, 0.001, busbw / 1.5, busbw, [])
    return ProbeReport("gloo", 4, NOW, 3.2, "done", "", ranks, [figure], pairs, {})


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replaces the measuring: the first probe answers at once, later ones wait to be stopped. How each one ended."""
    how: list[str] = []

    async def run(probe: AllreduceProbe) -> ProbeReport:
        probe._progress("pairs, round 1 of 3 \x1b[31m")
        if not how:
            how.append("answered")
            return report(4.8)
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


async def test_the_answer_shows_figures_pairs_and_findings(ended: list[str]) -> None:
    async with screen(session().session()) as shown:
        await shown.press("a", "y")
        assert "Collective probe, gloo, 4 ranks, 3.2 s" in shown.text()
        assert "bandwidth_low" in shown.text()
        assert len([line for line in shown.lines() if " - node" in line and "0.05  " in line]) == 3
        await shown.press("escape")
        assert "Collective probe" not in shown.text()
    assert ended == ["answered"]


async def test_escape_stops_it_and_it_cleans_up_first(ended: list[str]) -> None:
    ended.append("answered")
    async with screen(session().session()) as shown:
        await go(shown)
        assert "pairs, round 1 of 3" in shown.text()
        assert "Esc stops it, and cleans up on the nodes" in shown.text()
        await shown.press("escape")
        assert ended[-1] == "cleaned up"
        assert "CANCELLED  stopped on request" in shown.text()
        await shown.press("escape")
        assert "CANCELLED" not in shown.text()
