"""Who waits for whom on the screen, with real keys; and the overview of small and large jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collectors.samples.ranks import InsidePulse
from collectors.samples.stream import Tick
from hangtop.diagnosis.finding import Verdict, WaitBox
from tests.support.piloted import screen
from tests.support.screens import NOW, PID, Paper, PaperSession, hung, say


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


@pytest.mark.parametrize(("nodes", "size", "where"), [(2, (120, 36), "node[1-2]"), (200, (200, 50), "node[1-200]")])
async def test_who_waits_is_on_the_overview_of_a_job_that_hangs(nodes: int, size: tuple[int, int], where: str) -> None:
    async with screen(hanging(nodes), size=size) as shown:
        text = shown.text()
        assert "A rank 11 on node2: in read_shard (data.py:88)" in text
        assert f"└─ B ranks 0-10,12-{nodes * 8 - 1} on {where}" in text
        assert f"{nodes * 8 - 1:,} ranks wait · next" in text
        shown.session.verdict = Verdict("healthy", "all is well")
        await shown.draw()
        assert "A rank 11" not in shown.text()
        assert "ranks wait" not in shown.text()


async def test_a_chain_longer_than_the_screen_is_read_to_its_end_beside_the_finding() -> None:
    session = hanging()
    chain = [WaitBox((11,), ("node2",), "in read_shard (data.py:88)", True)]
    chain += [
        WaitBox((rank,), ("node1",), f"waits in recv at stage{rank} (pipe.py:7)", False, (place,), f"recv {rank} of pp")
        for place, rank in enumerate(rank for rank in range(31) if rank != 11)
    ]  # fmt: skip
    session.verdict = replace(hung(), waits=tuple(chain))
    async with screen(session, size=(80, 24)) as shown:
        await shown.press("7", *["right"] * 8)
        assert "rank 30 " in shown.text()


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_a_job_that_is_well_shows_step_pace_and_last_line_of_its_ranks(size: tuple[int, int]) -> None:
    session = Paper(nodes=1, gpus=4).session()
    session.verdict = Verdict("healthy", "all is well")
    session.samples("node1", [InsidePulse(PID + 3, 41, NOW - 1, "forward", NOW), Tick(9, NOW, 0.01, 0.1, 9 << 20)])
    say(session, "node1", 2, NOW - 1, "loss 2.31")
    async with screen(session, size=size) as shown:
        assert any(line.rstrip().endswith("     2        –       –  loss 2.31") for line in shown.lines())
        assert any(line.rstrip().endswith("     3       41       –") for line in shown.lines())
        assert session.nodes_told.viewed[-1] >= {f"/logs/rank{rank}.err" for rank in range(4)}


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
