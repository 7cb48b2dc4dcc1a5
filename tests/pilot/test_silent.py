"""A node that does not respond: what was last heard of it is nowhere told as if it were so now."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from collectors.fleet.sink import LinkChange
from tests.support.piloted import screen
from tests.support.screens import NOW, Paper, PaperSession, hung
from tui.panels.overview import OverviewPanel
from tui.panels.overview_words import Figures

WIDE = (200, 50)


def silent(seconds: int = 29) -> tuple[Paper, PaperSession]:
    """Two nodes of four GPUs each, of which node2 has said nothing for so long."""
    paper = Paper(nodes=2, gpus=4, slow=5)
    session = paper.session()
    for tick in range(21, 21 + seconds):
        paper.clock.now += 1
        paper.feed(session, 0, tick)
        session.tick()
    return paper, session


async def test_nothing_of_a_silent_node_is_told_as_if_it_were_so_now() -> None:
    _, session = silent()
    async with screen(session, size=WIDE) as shown:
        ranks = [line for line in shown.lines() if re.search(r"^ +[4-7] node2 ", line)]
        assert len(ranks) == 4
        assert all(re.search(" silent +–", line) for line in ranks)
        await shown.press("2")
        ranks = [line for line in shown.lines() if " node2 " in line]
        assert [line.count("◌ silent") for line in ranks] == [1] * 4
        assert not any("R on CPU" in line or "D kernel!" in line for line in ranks)
        await shown.press("4")
        assert [line.count("◌ silent") for line in shown.lines() if " node2 " in line] == [1, 1]


async def test_totals_leave_out_what_is_on_a_silent_node_and_say_so() -> None:
    _, session = silent()
    async with screen(session, size=WIDE) as shown:
        assert shown.lines()[2].startswith(" GPU utilisation %  from 92 to 99 ")  # 0 at rank 5, which is silent
        await shown.press("3")
        assert shown.lines()[2].startswith(" 8 GPUs")
        assert "◌ 4 on nodes that do not respond" in shown.lines()[2]
        await shown.press("4")
        assert shown.lines()[2].startswith(" 1 of 2 HCA ports up   ◌ 1 on nodes that do not respond")


async def test_since_when_a_job_stands_is_told_though_nobody_hears_of_whom_it_waits_for() -> None:
    paper = Paper(nodes=2, gpus=0)
    session = paper.session(ticks=0)
    for second in range(60):
        paper.clock.now = NOW + second
        for index in range(paper.nodes if second < 20 else 1):
            paper.feed(session, index, min(second, 20))
        session.tick()
    session.link(LinkChange("node2", "lost", "no answer for 8 s", paper.clock.now))
    session.publish(hung(3))
    async with screen(session, size=WIDE) as shown:
        assert re.search(r" since \d\d:\d\d:\d\d, \d+s", shown.text())


async def test_the_last_lines_of_nobody_are_not_shown_once_nobody_is_blamed_any_more() -> None:
    session = Paper(nodes=2, slow=5).session()
    verdict = hung(5)
    session.publish(verdict)
    async with screen(session, size=WIDE) as shown:
        assert "last lines of rank 5" in shown.text()
        blamed, others = verdict.waits
        session.publish(replace(verdict, waits=(replace(blamed, blamed=False), replace(others, waits_for=()))))
        await shown.draw()
        assert "who waits for whom" in shown.text()
        assert "last lines" not in shown.text()


async def test_no_more_ranks_are_on_cpu_than_are_alive_though_nodes_are_looked_at_a_part_a_tick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paper = Paper(nodes=2, gpus=4)
    session = paper.session()
    async with screen(session, size=(120, 36)) as shown:
        overview = shown.app.panel
        assert isinstance(overview, OverviewPanel)
        monkeypatch.setattr(overview.totals.figures, "turn", lambda nodes: [Figures(90, 95, 0.9, 0, 4)] * len(nodes))
        paper.clock.now += 60
        paper.feed(session, 0, 30)
        await shown.draw()
        assert "4 of 4 ranks on CPU now" in shown.lines()[2]
