"""Who waits for whom on the screen, with real keys; and the overview of small and large jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hangtop.diagnosis.finding import Verdict, WaitBox
from tests.support.piloted import screen
from tests.support.screens import Paper, PaperSession, hung

KEYS = "arrows, Enter opens, Esc leaves"
"""What the title says while the cursor is in who waits for whom."""


def hanging(nodes: int = 4, *, stacks: bool = False) -> PaperSession:
    """A job of this size in which rank 11 holds all others up."""
    paper = Paper(nodes=nodes, slow=11)
    session = paper.session(ticks=3)
    verdict = hung(11, paper.name(1))
    blamed, waiting = verdict.waits
    ranks = tuple(rank for rank in range(nodes * paper.each) if rank != 11)
    everywhere = tuple(paper.name(index) for index in range(nodes))
    session.verdict = replace(verdict, waits=(blamed, replace(waiting, ranks=ranks, nodes=everywhere)))
    for node, dump in paper.stacks() if stacks else ():
        session.stacks(node, [dump])
    return session


@pytest.mark.parametrize(("nodes", "size"), [(2, (120, 36)), (200, (200, 50))])
async def test_who_waits_is_on_the_overview_of_a_job_that_hangs(nodes: int, size: tuple[int, int]) -> None:
    async with screen(hanging(nodes), size=size) as shown:
        text = shown.text()
        assert "A rank 11 on node2: in read_shard (data.py:88)" in text
        assert f"└─ B ranks 0-10,12-{nodes * 8 - 1} on node[1-{nodes}]" in text
        assert f"{nodes * 8 - 1:,} ranks wait · next" in text
        shown.session.verdict = Verdict("healthy", "all is well")
        await shown.draw()
        assert "A rank 11" not in shown.text()
        assert "ranks wait" not in shown.text()


async def test_w_goes_into_the_picture_and_enter_to_the_stack_and_back() -> None:
    async with screen(hanging(stacks=True), size=(120, 36)) as shown:
        await shown.press("7", "W")
        assert "[Overview]" in shown.lines()[1]
        assert KEYS in shown.text()
        assert shown.app.panel.chosen_ranks() == {11}
        await shown.press("right")
        assert len(shown.app.panel.chosen_ranks()) == 31
        assert shown.app.model.timeline.at is None, "the arrows are the picture's now"
        await shown.press("left", "enter")
        assert "[Stacks]" in shown.lines()[1]
        assert "Stacks rank 11" in shown.lines()[2]
        await shown.press("escape")
        assert KEYS in shown.text()
        assert shown.app.panel.chosen_ranks() == {11}
        await shown.press("escape")
        assert "[Findings" in shown.lines()[1]
        await shown.press("1")
        assert KEYS not in shown.text()


async def test_a_chain_longer_than_the_screen_is_a_tree_and_follows_the_cursor_to_its_end() -> None:
    session = hanging()
    chain = [WaitBox((11,), ("node2",), "in read_shard (data.py:88)", True)]
    chain += [
        WaitBox((rank,), ("node1",), f"waits in recv at stage{rank} (pipe.py:7)", False, (place,), f"recv {rank} of pp",
                (f"recv {rank} of pp",))
        for place, rank in enumerate(rank for rank in range(31) if rank != 11)
    ]  # fmt: skip
    session.verdict = replace(hung(), waits=tuple(chain))
    async with screen(session, size=(80, 24)) as shown:
        await shown.press("1", "W")
        assert "more than fits" in shown.text()
        for _ in range(9):
            await shown.press_quickly("right")
        assert shown.app.panel.chosen_ranks() == {8}
        await shown.press("end")
        assert shown.app.panel.chosen_ranks() == {30}
        assert "rank 30 " in shown.text()
        await shown.press("home")
        assert shown.app.panel.chosen_ranks() == {11}


@pytest.mark.parametrize(("nodes", "text"), [(4, "11  A"), (200, "A")])
async def test_the_culprit_has_a_red_ground_and_nobody_else(nodes: int, text: str) -> None:
    async with screen(hanging(nodes), size=(120, 36)) as shown:
        (row,) = (
            strip
            for strip in shown.app.screen._compositor.render_strips()
            if "".join(cell.text for cell in strip).startswith(("● node1 ", "▸ node1 "))
        )
        red = [cell.text for cell in row if cell.style and cell.style.bgcolor and cell.style.bgcolor.name == "#f0706b"]
        assert "".join(red).strip() == text


async def test_ranks_say_where_the_verdict_sees_them_while_they_hang() -> None:
    async with screen(hanging(), size=(140, 40)) as shown:
        await shown.press("2")
        assert "A in read_shard (data.py:88)" in shown.text()
        assert shown.text().count("B waits in all_reduce") == 31
        await shown.press("slash", *"now~read_shard", "enter")
        assert "1 of 32 ranks shown" in shown.text()
