"""The overview of a small job: who stopped first, for as long as it stands; what happened, said whole; scales."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from collectors.fleet.sink import LinkChange
from hangtop.session.history.lanes import Lanes
from hangtop.session.state.changes import Change
from tests.support.piloted import screen
from tests.support.screens import NOW, Paper, PaperSession, hung

MOVED = "▇"
WIDE = (200, 50)


def watched(*, stood: int, gpus: int = 0) -> PaperSession:
    """A job that moved for 40 s; all of its ranks have stood still for ``stood`` seconds."""
    paper = Paper(nodes=2, gpus=gpus)
    session = paper.session(ticks=0)
    began = NOW - 40 - stood
    for second in range(40 + stood + 1):
        paper.clock.now = began + second
        for index in range(paper.nodes):
            paper.feed(session, index, min(second, 40))
        session.tick()
    return session


def wedge(lines: list[str]) -> list[str]:
    """The ranks' lines of the onset."""
    start = next(at for at, line in enumerate(lines) if line.startswith("  rank node")) + 1
    return lines[start : start + 4]


async def test_the_wedge_stays_on_view_when_all_have_stood_for_longer_than_a_minute() -> None:
    session = watched(stood=100)
    async with screen(session, size=WIDE) as shown:
        title = next(line for line in shown.lines() if line.startswith(" ranks, first to stop above"))
        assert "1 s a cell: ▇ moves, ▃ wakes, · still" in title
        assert re.search(r" 02:4\d:\d\d to 02:4\d:\d\d ─", title)
        assert all(MOVED in line and "·" in line for line in wedge(shown.lines()))


async def test_what_stood_before_anybody_watched_is_shown_as_it_stands_now(monkeypatch: pytest.MonkeyPatch) -> None:
    session = watched(stood=100)
    monkeypatch.setattr(Lanes, "stopped", lambda _lanes, _now: NOW - 300)
    async with screen(session, size=WIDE) as shown:
        title = next(line for line in shown.lines() if line.startswith(" ranks, first to stop above"))
        assert " 02:46:01 to now ─" in title
        assert all(" 5m00s " in line and "·" in line for line in wedge(shown.lines()))


async def test_while_ranks_move_the_minute_is_the_last_one() -> None:
    session = watched(stood=0)
    async with screen(session, size=WIDE) as shown:
        title = next(line for line in shown.lines() if line.startswith(" ranks, first to stop above"))
        assert " 02:46:01 to now ─" in title
        assert all(MOVED in line for line in wedge(shown.lines()))


@pytest.mark.parametrize("width", range(80, 220, 20))
@pytest.mark.parametrize("stood", [0, 100])
async def test_the_title_of_the_wedge_says_what_and_of_when_at_any_width(width: int, stood: int) -> None:
    session = watched(stood=stood)
    async with screen(session, size=(width, 50)) as shown:
        title = next(line for line in shown.lines() if line.startswith(" ranks"))
        found = re.match(r" ranks, first to stop above(, \d s a cell)?(: ▇ moves, ▃ wakes, · still)? ─*", title)
        assert found is not None
        assert re.match(r" ?\d\d:\d\d:\d\d to (now|\d\d:\d\d:\d\d) ─", title[found.end() :].lstrip("─"))


async def test_figures_of_ranks_stand_under_their_names() -> None:
    session = watched(stood=0, gpus=2)
    async with screen(session, size=WIDE) as shown:
        lines = shown.lines()
        head = next(line for line in lines if line.startswith("  rank node"))
        row = wedge(lines)[0]
        ends = [head.index(name) + len(name) for name in ("still", " cpu", "power")]
        assert [row[:end].split()[-1] for end in ends] == ["moves", "97%", f"{640 + 40 * 3 % 9}W"]


@pytest.mark.parametrize(("width", "whole"), [(120, True), (300, False)])
async def test_what_happened_is_wrapped_where_lines_are_left_and_the_line_is_too_short(width: int, whole: bool) -> None:
    session = watched(stood=0)
    text = "rank 3 on node1 is in " + " ".join(f"word{number}" for number in range(12))
    session.state.changes.append(Change(NOW - 5, "", text, "other"))
    async with screen(session, size=(width, 50)) as shown:
        lines = shown.lines()
        first = next(at for at, line in enumerate(lines) if "rank 3 on node1 is in" in line)
        assert ("word11" in lines[first]) is not whole
        assert "word11" in shown.text()


async def test_a_value_of_a_chart_is_told_from_its_scale() -> None:
    session = watched(stood=100)
    session.verdict = replace(hung(1, "node1"), waits=())
    async with screen(session, size=(120, 36)) as shown:
        lines = shown.lines()
        at = next(at for at, line in enumerate(lines) if line.startswith(" moving"))
        assert lines[at].split("┤")[0].split() == ["moving", "4"]
        assert re.split("[┤│]", lines[at + 1])[0].split()[:2] == ["now", "0"]
    async with screen(session, size=(80, 18)) as shown:
        assert any(line.startswith(" moving    0/4 ") for line in shown.lines())


@pytest.mark.parametrize("hangs", [True, False])
@pytest.mark.parametrize("nodes", [20, 64])
async def test_below_the_map_of_a_larger_job_stand_the_ranks_that_stopped_first(nodes: int, hangs: bool) -> None:
    paper = Paper(nodes=nodes, slow=11)
    session = paper.session()
    session.tick()
    if hangs:
        session.publish(hung())
    async with screen(session, size=WIDE) as shown:
        await shown.draw()
        lines = shown.lines()
        title = next(at for at, line in enumerate(lines) if line.startswith(" ranks, first to stop above"))
        assert lines[title + 2].startswith("▶   11 node2" if hangs else "     0 node1")
        last = next(at for at, line in enumerate(lines) if line.startswith(" nodes that differ"))
        left = [line[:100].strip() for line in lines[:last]]
        first = next(at for at, line in enumerate(left) if " node1 " in line)
        assert "" not in {above + below for above, below in zip(left[first:], left[first + 1 :], strict=False)}


async def test_where_the_map_of_a_larger_job_leaves_no_room_below_it_the_ranks_do_not_stand_there() -> None:
    async with screen(Paper(nodes=100).session(ticks=2), size=(150, 46)) as shown:
        assert not any(line.startswith(" ranks") for line in shown.lines())
        await shown.press("-")
        assert not any(line.startswith(" ranks") for line in shown.lines()), "half a block a node shows no ranks"


async def test_charts_of_a_small_job_take_the_lines_that_nothing_else_fills() -> None:
    async with screen(watched(stood=0, gpus=4), size=WIDE) as shown:
        await shown.draw()
        lines = shown.lines()[:-1]
        assert not [line for line in lines if not line.strip()]
        assert sum(line.startswith("● node1") for line in lines) == 1


@pytest.mark.parametrize("gpus", [0, 2])
async def test_power_has_a_column_where_there_is_a_gpu(gpus: int) -> None:
    async with screen(watched(stood=0, gpus=gpus), size=WIDE) as shown:
        heads = next(line for line in shown.lines() if line.startswith("  rank node"))
        assert ("power" in heads.split("what happened")[0]) is bool(gpus)


async def test_before_a_node_is_known_nobody_says_how_many_are_up() -> None:
    session = Paper(nodes=0).session()
    async with screen(session) as shown:
        assert shown.lines()[0].startswith(" hangtop  no node yet ")
        session.link(LinkChange("node1", "connecting", "", session.clock.now))
        await shown.draw()
        assert shown.lines()[0].startswith(" hangtop  0/1 nodes up   0 ranks seen")
