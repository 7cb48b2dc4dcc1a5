"""Who waits for whom on the screen, with real keys; and the overview of small and large jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.color import Color

from collectors.samples.logs import LogFile
from hangtop.diagnosis.finding import Verdict, WaitBox
from tests.support.piloted import Screen, screen
from tests.support.screens import NOW, PID, Paper, PaperSession, hung, say
from tests.support.terminal import attached
from tui.app import HangtopApp, ScreenOptions
from tui.panels.overview import OverviewPanel

SIZES = [(80, 24), (120, 36), (200, 50)]


def of_all(paper: Paper) -> Verdict:
    """The verdict of a job of this size: rank 11 holds everybody up."""
    verdict = hung(11, "node2")
    blamed, waiting = verdict.waits
    ranks = tuple(rank for rank in range(paper.nodes * paper.each) if rank != 11)
    nodes = tuple(paper.name(index) for index in range(paper.nodes))
    return replace(verdict, waits=(blamed, replace(waiting, ranks=ranks, nodes=nodes)))


def hanging(nodes: int = 4, *, stacks: bool = False) -> PaperSession:
    paper = Paper(nodes=nodes, slow=11)
    session = paper.session(ticks=3)
    session.verdict = of_all(paper)
    for node, dump in paper.stacks() if stacks else ():
        session.samples(node, [dump], 0)
    return session


def overview(shown: Screen) -> OverviewPanel:
    panel = shown.app.panel
    assert isinstance(panel, OverviewPanel)
    return panel


@pytest.mark.parametrize("size", SIZES[1:])
@pytest.mark.parametrize("nodes", [2, 64])
async def test_who_waits_is_on_the_overview_of_a_job_that_hangs(nodes: int, size: tuple[int, int]) -> None:
    async with screen(hanging(nodes), size=size) as shown:
        text = shown.text()
        assert "who waits for whom" in text
        assert "A rank 11 · node2: in read_shard (data.py:88)" in text
        assert "└─ B" in text
        assert f"{nodes * 8 - 1} ranks wait · next" in text
        shown.session.verdict = Verdict("healthy", "all is well")
        await shown.draw()
        assert "A rank 11" not in shown.text()
        assert "ranks wait" not in shown.text()


async def test_g_goes_into_the_picture_and_enter_to_the_stack_and_back() -> None:
    async with screen(hanging(stacks=True), size=(120, 36)) as shown:
        await shown.press("g")
        assert "arrows, Enter opens, Esc leaves" in shown.text()
        assert ", . scrub" in shown.text()  # time is still there, and says which keys are its own
        assert "← → scrub" not in shown.text()
        assert overview(shown).chosen_ranks() == {11}
        await shown.press("right")
        assert len(overview(shown).chosen_ranks()) == 31
        assert shown.app.model.timeline.at is None  # the arrows are the picture's now
        await shown.press("left", "enter")
        assert "[Stacks]" in shown.lines()[1]
        assert "Overview" in shown.lines()[2]
        assert "Stacks rank 11" in shown.lines()[2]
        await shown.press("escape")
        assert "arrows, Enter opens, Esc leaves" in shown.text()
        assert overview(shown).chosen_ranks() == {11}
        await shown.press("escape")
        assert "Esc leaves" not in shown.text()
        assert "what happened" in shown.text()


async def test_w_shows_it_from_any_panel_and_escape_leads_back() -> None:
    async with screen(hanging(), size=(120, 36)) as shown:
        await shown.press("7", "W")
        assert "[Overview]" in shown.lines()[1]
        assert "arrows, Enter opens, Esc leaves" in shown.text()
        await shown.press("escape")
        assert "[Findings" in shown.lines()[1]
        await shown.press("1")
        assert "Esc leaves" not in shown.text()


@pytest.mark.parametrize("links", [9, 30])
async def test_a_chain_longer_than_the_screen_is_a_tree_and_follows_the_cursor_to_its_end(links: int) -> None:
    session = hanging()
    chain = [WaitBox((11,), ("node2",), "in read_shard (data.py:88)", True)]
    chain += [
        WaitBox((rank,), ("node1",), f"waits in recv at stage{rank} (pipe.py:7)", False, (rank,), f"recv {rank} of pp",
                (f"recv {rank} of pp",))
        for rank in range(links)
    ]  # fmt: skip
    for place, box in enumerate(chain[1:]):
        chain[place + 1] = replace(box, waits_for=(place,))
    session.verdict = replace(hung(), waits=tuple(chain))
    async with screen(session, size=(80, 24)) as shown:
        await shown.press("g")
        assert ("more than fits" in shown.text()) == (links == 30)
        assert "A rank 11 · node2: in read_shard (data.py:88)  ◀ holds the others up" in shown.text()
        for _ in range(9):
            await shown.press_quickly("right")
        assert overview(shown).chosen_ranks() == {8}
        assert "rank 8" in shown.text()
        await shown.press("end")
        assert overview(shown).chosen_ranks() == {links - 1}
        assert f"rank {links - 1} " in shown.text()
        await shown.press("up", "left")
        assert overview(shown).chosen_ranks() == {links - 3}
        await shown.press("home")
        assert overview(shown).chosen_ranks() == {11}
        assert "A rank 11" in shown.text()


async def test_nodes_with_long_names_are_told_without_what_all_share() -> None:
    names = [f"ip-10-0-7-{number}.eu-central-1.compute.internal" for number in range(4)]
    paper = Paper(slow=11, names=names)
    session = paper.session(ticks=3)
    session.verdict = of_all(paper)
    async with screen(session, size=(80, 24)) as shown:
        picture = shown.text().partition("who waits for whom")[2].partition("what happened")[0]
        assert "ranks 0-10,12-31" in picture
        assert "ip-10-0-7-[0-3]" in picture
        assert "internal" not in picture
        assert "ranks 0-31 started on ip-10-0-7-[0-3]" in shown.text()
        await shown.press("2", "slash", *"node~compute.internal", "enter")
        assert "32 of 32 ranks shown" in shown.text()
        assert "internal" not in shown.lines()[5]
        await shown.press("6")
        assert "all names end with .eu-central-1.compute.internal" in shown.lines()[2]


@pytest.mark.parametrize(("nodes", "text"), [(4, "11  A"), (64, " A")])
async def test_the_culprit_has_a_red_ground_and_nobody_else(nodes: int, text: str) -> None:
    session = hanging(nodes)
    app = HangtopApp(session, ScreenOptions(theme="hangtop"))
    terminal = attached(app)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        app.tick()
        await pilot.pause()
        red = Color.parse("#f0706b")
        ground = f"48;2;{red.r};{red.g};{red.b}"
        rows = list(zip(terminal.lines(), terminal.cells, strict=True))
        node2 = [row for line, row in rows if line.startswith(("● node2 ", "▸ node2 "))]
        assert len(node2) == 1
        cells = [cell for cell in node2[0] if ground in cell.style]
        assert "".join(cell.char for cell in cells).strip() == text.strip()
        others = [row for line, row in rows if line.startswith(("▸ node1 ", "● node1 "))]
        assert others
        assert not any(ground in cell.style for row in others for cell in row)


async def test_the_last_lines_of_the_culprit_are_asked_for_and_shown_and_only_they() -> None:
    session = hanging()
    session.samples("node2", [LogFile("/logs/rank11.err", "8:11", PID + 11, 11, "stderr", 4096, "", "")], 0)
    say(session, "node2", 11, NOW - 3, "reading shard 7")
    say(session, "node1", 0, NOW - 3, "nothing to do with it")
    async with screen(session, size=(120, 36)) as shown:
        assert session.nodes_told.viewed[-1] == {"/logs/rank11.err"}
        assert "last lines of rank 11" in shown.text()
        assert "reading shard 7" in shown.text()
        assert "nothing to do with it" not in shown.text()
        await shown.press("6")
        assert session.nodes_told.viewed[-1] == set()


async def test_ranks_say_where_the_verdict_sees_them_while_they_hang() -> None:
    session = hanging()
    async with screen(session, size=(140, 40)) as shown:
        await shown.press("2")
        assert "A in read_shard (data.py:88)" in shown.text()
        assert shown.text().count("B waits in all_reduce") == 31
        await shown.press("slash", *"doing~read_shard", "enter")
        assert "1 of 32 ranks shown" in shown.text()
