"""The overview of a job whose ranks have all ended."""

from __future__ import annotations

from collectors.samples.ranks import RankGone
from tests.support.piloted import screen
from tests.support.screens import NOW, PID, Paper


async def test_where_no_rank_runs_any_more_the_overview_says_so_and_leaves_no_empty_list() -> None:
    paper = Paper(nodes=2, gpus=2)
    session = paper.session()
    async with screen(session, size=(120, 36)) as shown:
        assert "4 of 4 ranks on CPU now" in shown.text()
        for rank in range(4):
            session.samples(paper.node_of(rank), [RankGone(PID + rank, rank, NOW)], 100)
        await shown.draw()
        assert "no rank runs any more" in shown.lines()[2]
        assert "no rank is seen to run" in shown.text()
        assert "on CPU" not in shown.text()
        paper.clock.now += 60
        await shown.draw()
        assert "no rank runs any more" in shown.lines()[2]


async def test_of_nodes_that_do_not_answer_nobody_says_that_their_ranks_ended() -> None:
    paper = Paper(nodes=2, gpus=2)
    session = paper.session()
    async with screen(session, size=(120, 36)) as shown:
        paper.clock.now += 60
        await shown.draw()
        assert "runs any more" not in shown.text()
