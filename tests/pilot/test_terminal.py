"""What a terminal shows after updates is what a fresh drawing shows: no overlap, no ghost, no stale cell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from collectors.fleet.sink import LinkChange
from collectors.samples.gpus import GpuFacts, GpuProcesses, GpuSample
from collectors.samples.ranks import RankProcess, RankPulse
from collectors.samples.stream import Tick
from hangtop.diagnosis.finding import Verdict
from tests.support.made import gpu_row
from tests.support.piloted import Screen
from tests.support.screens import Paper, PaperSession, hung
from tests.support.terminal import JUNK, Terminal, attached
from tui.app import HangtopApp, ScreenOptions
from tui.panels.overview import OverviewPanel
from tui.widgets.footer import Footer

OPTIONS = ScreenOptions(theme="hangtop")
SIZES = [(80, 24), (120, 36), (200, 50)]
LARGE_ARE_SLOW = [SIZES[0], *(pytest.param(size, marks=pytest.mark.slow) for size in SIZES[1:])]


@pytest.fixture(autouse=True)
def _no_cost_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one number on the screen that no job on paper decides."""
    monkeypatch.setattr(Footer, "measure", lambda self: None)


@asynccontextmanager
async def attached_screen(session: PaperSession, size: tuple[int, int]) -> AsyncIterator[tuple[Screen, Terminal]]:
    """An application and the terminal that it writes to."""
    app = HangtopApp(session, OPTIONS)
    terminal = attached(app)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield Screen(app, session, pilot), terminal


class Only:
    """Lets only samples of some kinds through to a session, or all but those."""

    def __init__(self, session: PaperSession, kinds: tuple[type, ...], *, let: bool) -> None:
        self.session, self.kinds, self.let = session, kinds, let

    def link(self, change: LinkChange) -> None:
        self.session.link(change)

    def samples(self, node: str, samples: list[NamedTuple], size: int) -> None:
        self.session.samples(node, [one for one in samples if isinstance(one, self.kinds) is self.let], size)


RANKS = (RankProcess, RankPulse)
GPUS = (GpuFacts, GpuSample, GpuProcesses)


async def told_bit_by_bit(paper: Paper, session: PaperSession, shown: Screen) -> None:
    """Nodes come, then their ranks, then their GPUs, then a hang and a lost node; each is drawn."""
    for index in range(paper.nodes):
        session.link(LinkChange(paper.name(index), "connecting", "", paper.clock.now))
    await shown.draw()
    without, late = Only(session, RANKS + GPUS, let=False), Only(session, RANKS, let=True)
    for sink in (without, late, Only(session, GPUS, let=True)):
        for index in range(paper.nodes):
            paper.feed(sink, index, 0)  # type: ignore[arg-type]
        await shown.draw()
    for tick in range(1, 4):
        paper.clock.now += 1
        for index in range(paper.nodes):
            paper.feed(session, index, tick)
        await shown.draw()
    session.verdict = hung(11, "node2")
    session.link(LinkChange("node1", "lost", "the link was cut: no answer for 8 s", paper.clock.now))
    await shown.draw()


async def fresh(session: PaperSession, size: tuple[int, int], *keys: str) -> list[str]:
    """The same moment, drawn by an application that has drawn nothing before."""
    app = HangtopApp(session, OPTIONS)
    terminal = attached(app)
    async with app.run_test(size=size) as pilot:
        shown = Screen(app, session, pilot)
        for key in keys:
            await shown.press_quickly(key)
        app.redraw_all()
        await pilot.pause()
        return terminal.lines()


def unlike(ones: list[str], others: list[str]) -> str:
    """The lines that differ, one below the other."""
    pairs = enumerate(zip(ones, others, strict=True))
    return "\n".join(f"{y:3} {one}\n    {other}" for y, (one, other) in pairs if one != other)


@pytest.mark.parametrize("nodes", [2, 16, 64])
@pytest.mark.parametrize("size", SIZES)
async def test_the_overview_of_what_came_bit_by_bit(size: tuple[int, int], nodes: int) -> None:
    paper = Paper(nodes=nodes, slow=11)
    session = paper.session(ticks=0)
    async with attached_screen(session, size) as (shown, terminal):
        await told_bit_by_bit(paper, session, shown)
        lines = terminal.lines()
        assert not terminal.outside
    again = await fresh(session, size)
    assert not unlike(lines, again)
    assert not any(JUNK in line for line in again)


@pytest.mark.parametrize("nodes", [2, 16, pytest.param(64, marks=pytest.mark.slow)])
async def test_a_terminal_that_grows_and_shrinks_keeps_nothing_of_what_it_was(nodes: int) -> None:
    paper = Paper(nodes=nodes, slow=11)
    session = paper.session(ticks=3)
    session.verdict = hung(11, "node2")
    async with attached_screen(session, SIZES[0]) as (shown, terminal):
        for size in (*SIZES[1:], (170, 40), *SIZES[::-1]):
            await shown.pilot.resize_terminal(*size)
            await shown.draw()
            lines = terminal.lines()
            assert not any(JUNK in line for line in lines), size
            paper.clock.now += 1
            paper.feed(session, 0, 4)
            await shown.draw()
            again = await fresh(session, size)
            assert not unlike(terminal.lines(), again), size
        assert not terminal.outside


KEYS = [("g",), ("g", "right"), ("g", "right", "escape"), ("minus",), ("minus", "minus", "down"), ("plus", "plus", "v")]


@pytest.mark.parametrize("nodes", [4, *(pytest.param(nodes, marks=pytest.mark.slow) for nodes in (40, 200))])
@pytest.mark.parametrize("size", LARGE_ARE_SLOW)
async def test_views_and_the_picture_of_waits_leave_nothing_behind(size: tuple[int, int], nodes: int) -> None:
    paper = Paper(nodes=nodes, gpus=4, slow=11)
    session = paper.session(ticks=3)
    async with attached_screen(session, size) as (shown, terminal):
        await shown.press("minus", "plus", "plus", "minus")
        for tick in range(3, 5):
            paper.clock.now += 1
            for index in range(nodes):
                paper.feed(session, index, tick)
            await shown.draw()
        session.verdict = hung(11, "node3")
        await shown.draw()
        await shown.draw()
        for keys in KEYS:
            panel = shown.app.panel
            assert isinstance(panel, OverviewPanel)
            panel.leave()
            panel.view, panel.heatmap.chosen = None, None
            panel.waitmap.move("first")
            panel.mosaic.move("first")
            panel.heatmap.moved = False
            for key in keys:
                await shown.press_quickly(key)
            await shown.draw()
            await shown.draw()
            lines = terminal.lines()
            assert not unlike(lines, await fresh(session, size, *keys)), keys
            assert not any(JUNK in line for line in lines), keys
        assert not terminal.outside


@pytest.mark.parametrize("panel", "1234567")
async def test_a_panel_that_one_comes_back_to_shows_this_moment(panel: str) -> None:
    paper = Paper(slow=11)
    session = paper.session()
    session.verdict = Verdict("healthy", "all is well")
    other = "6" if panel == "1" else "1"
    async with attached_screen(session, (120, 36)) as (shown, terminal):
        await shown.press(panel, other)
        for tick in range(20, 23):
            paper.clock.now += 1
            for index in range(paper.nodes):
                idle = [gpu_row(at, utilization=0, power=80.0, event_reasons=0x4) for at in range(paper.gpus)]
                session.samples(paper.name(index), [*idle, Tick(tick, paper.clock.now, 0.004, 0.1, 2**20)], 99)
            await shown.draw()
        session.verdict = hung(11, "node2")
        await shown.draw()
        await shown.press(panel)
        await shown.pilot.pause(0.3)  # until a table that has found that it needs no scrollbar is drawn without
        for _ in range(2):
            assert not unlike(terminal.lines(), await fresh(session, (120, 36), panel))
            await shown.draw()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("key", ["question_mark", "i", "colon", "K"])
async def test_under_a_dialog_the_verdict_is_live_and_in_the_first_row(key: str, size: tuple[int, int]) -> None:
    paper = Paper(slow=11)
    session = paper.session()
    session.verdict = Verdict("healthy", "all is well")
    async with attached_screen(session, size) as (shown, terminal):
        await shown.press(key)
        await shown.pilot.pause(0.3)
        assert "● HEALTHY  all is well" in terminal.lines()[0]
        for tick in range(20, 23):
            paper.clock.now += 1
            for index in range(paper.nodes):
                idle = [gpu_row(at, utilization=0, power=80.0) for at in range(paper.gpus)]
                session.samples(paper.name(index), [*idle, Tick(tick, paper.clock.now, 0.004, 0.1, 2**20)], 99)
        session.verdict = hung(11, "node2")
        await shown.draw()
        await shown.pilot.pause(0.1)
        assert terminal.lines()[0].startswith(" ■ HUNG  rank 11 on node2")
        assert not any(JUNK in line for line in terminal.lines())
        if size == SIZES[-1] and key != "question_mark":  # large enough: the box leaves the first lines free
            assert "Findings 2" in terminal.lines()[1]
            assert "31 ranks wait   next" in terminal.lines()[2]
