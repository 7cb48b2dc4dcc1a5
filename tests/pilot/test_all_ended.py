"""The overview of a job whose ranks have ended, all of them or some."""

from __future__ import annotations

import pytest

from collectors.samples.ranks import RankGone
from hangtop.diagnosis.finding import Evidence, Finding, Verdict
from tests.support.piloted import screen
from tests.support.screens import NOW, PID, Paper, say


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


def crashed() -> Verdict:
    return Verdict(
        "crashed",
        "rank 5 on node2 failed first: ValueError: no such shard",
        findings=(
            Finding(
                "rank_crashed", "critical", 0.9, "rank 5 on node2 failed first: ValueError: no such shard",
                ranks=(5,), nodes=("node2",), evidence=(Evidence("rank5.err", NOW - 30, "ValueError: no such shard"),),
            ),
        ),
    )  # fmt: skip


@pytest.mark.parametrize(("nodes", "size"), [(2, (120, 36)), (40, (160, 50)), (2, (80, 24))])
async def test_of_a_crash_the_overview_says_since_when_what_next_and_the_last_lines_of_who_failed(
    nodes: int, size: tuple[int, int]
) -> None:
    paper = Paper(nodes=nodes, gpus=4)
    session = paper.session()
    async with screen(session, size=size) as shown:
        alone = shown.lines()[2]
        for rank in range(4, 8):
            session.samples("node2", [RankGone(PID + rank, rank, NOW)], 100)
        say(session, "node2", 5, NOW - 31, "ValueError: no such shard")
        say(session, "node1", 0, NOW - 30, "lost a peer")
        session.publish(crashed())
        await shown.draw()
        story = shown.lines()[2]
        assert story != alone
        assert story.startswith(" failed ")
        assert f"30s ago · 4 of {4 * nodes} ranks ended" in story
        assert "7 proof 5 logs x report" in " ".join(story.split())
        below = shown.text().partition("last lines of rank 5")[2]
        assert "ValueError: no such shard" in below
        for number in range(60):  # of a traceback, told with the file's time, which is later
            say(session, "node2", 5, NOW - 29, f"  File train.py, line {number}")
        say(session, "node2", 5, NOW - 29, "Traceback (most recent call last):")
        await shown.draw()
        below = shown.text().partition("last lines of rank 5")[2]
        assert "ValueError: no such shard" in below.splitlines()[1]
        assert "most recent call" in below.splitlines()[2]
        assert "lost a peer" not in below
        session.publish(Verdict("healthy", "all is well"))
        await shown.draw()
        assert "last lines" not in shown.text()
        assert "failed" not in shown.lines()[2]
