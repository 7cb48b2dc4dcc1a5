"""Panels of findings, stacks, groups and what ranks tell of themselves: the odd one is marked, and leads on."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from collectors.samples.collectives import RecorderDump
from collectors.samples.ranks import InsideFinding, InsidePulse, InsideResult
from hangtop.diagnosis.finding import Verdict
from tests.support.jobs import collective
from tests.support.made import tick
from tests.support.piloted import screen
from tests.support.screens import NOW, Paper, PaperSession, hung

# --- findings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moved", [False, True])
async def test_under_a_new_verdict_its_root_cause_is_proved_unless_somebody_chose_a_row(moved: bool) -> None:
    session = Paper(slow=11).session()
    waiting = replace(hung().findings[0], kind="waiting", severity="info", summary="31 ranks wait")
    session.publish(Verdict("healthy", "31 ranks wait", findings=(waiting, hung().findings[1])))
    async with screen(session, size=(80, 24)) as shown:
        await shown.press("7")
        assert "waiting   info" in shown.text()
        if moved:
            await shown.press("down")
        session.publish(replace(hung(), findings=(*hung().findings, waiting)))
        await shown.draw()
        assert ("watchdog_timeout   warning" in shown.text()) is moved
        assert ("rank_stuck_in_data   critical" in shown.text()) is not moved
        await shown.press("1", "7")
        assert "rank_stuck_in_data   critical" in shown.text(), "who comes back is shown the root cause"


# --- stacks ------------------------------------------------------------------------------------------------------


def dumped(paper: Paper) -> PaperSession:
    session = paper.session()
    session.state.stacks.extend(paper.stacks(NOW - 4))
    return session


async def test_the_odd_rank_comes_first_with_its_mark_and_enter_shows_full_stacks() -> None:
    async with screen(dumped(Paper(slow=11))) as shown:
        await shown.press("8")
        text = shown.text()
        assert "32 ranks in 2 groups   taken 4s ago" in text
        assert text.index("1 rank    11  node2") < text.index("31 ranks  0-10,12-31  4 nodes")
        assert "▸ read_shard (data.py:88)" in text
        assert "▸ train (train.py:203)" not in text
        await shown.press("enter")
        assert "rank 11 · node2" in shown.text()
        assert "read_shard  /home/ada/run/data.py:88" in shown.text()
        await shown.press("escape", "down", "enter")
        assert "ranks 0-10,12-31 · 4 nodes, the first 16 of them" in shown.text()
        assert "torch/distributed/distributed_c10d.py:2810" in shown.text()


async def test_stacks_say_what_the_verdict_says_of_their_ranks() -> None:
    session = dumped(Paper(slow=11))
    session.verdict = hung()
    async with screen(session) as shown:
        await shown.press("8")
        assert "node2   A in read_shard (data.py:88) ◀ holds the others up" in shown.text()
        assert "4 nodes   B wait in all_reduce at step (train.py:207) [all_reduce #134 in dp]" in shown.text()


async def test_a_rank_that_could_not_be_looked_at_says_why() -> None:
    session = dumped(Paper(nodes=1, slow=3))
    node, dump = session.state.stacks.pop()
    refused = dump._replace(threads=[], error="denied: [/x] ptrace", way_out="sudo sysctl kernel.yama.ptrace_scope=0")
    session.state.stacks.append((node, refused))
    async with screen(session) as shown:
        await shown.press("8")
        assert "denied: [/x] ptrace" in shown.text()
        await shown.press("down", "enter")
        assert "what would help: sudo sysctl kernel.yama.ptrace_scope=0" in shown.text()


async def test_dumping_leads_to_the_stacks_and_back() -> None:
    async with screen(Paper(nodes=1).session()) as shown:
        await shown.press("2", "down", "d")
        assert shown.session.dumped == [({1}, False)]
        assert "[Stacks]" in shown.lines()[1]
        assert "no stack taken yet" in shown.text()
        await shown.press("escape")
        assert "[Ranks]" in shown.lines()[1]
        await shown.press("D")
        assert shown.session.dumped == [({1}, False), (None, False)]


# --- groups ------------------------------------------------------------------------------------------------------


def recorded(rank: int, last: int) -> RecorderDump:
    """A dump of a rank of eight that launched up to #``last``; ranks that launched #30 wait in it."""
    begun = [(seq, NOW - 100 + seq) for seq in range(1, last + 1)]
    entries = [collective(rank, seq, "all_gather", done=seq < 30, created=at) for seq, at in begun]
    return RecorderDump(rank, f"node1:/tmp/fr_{rank}", NOW - 12, {"0": list(range(8))}, {}, entries)


async def test_the_rank_that_has_not_launched_is_marked_and_enter_goes_to_it() -> None:
    session = Paper(nodes=1).session()
    session.state.recorders.update({rank: recorded(rank, 29 if rank == 5 else 30) for rank in range(8)})
    async with screen(session) as shown:
        await shown.press("9")
        text = shown.text()
        assert "group default_pg  8 ranks  waits for 1m10s  from node1:/tmp/fr_0 and 7 others" in text
        assert any("▸ rank 5 node1" in line and line.rstrip().endswith("✖ launched #29 last") for line in shown.lines())
        assert any("ranks 0-4,6-7" in line and "… waits in all_gather #30" in line for line in shown.lines())
        await shown.press("down", "enter")
        assert "[Ranks]" in shown.lines()[1]
        assert "rank=5" in shown.text()
        await shown.press("escape")
        assert "[Groups]" in shown.lines()[1]


# --- what ranks tell of themselves -------------------------------------------------------------------------------


async def test_step_and_phase_stand_in_the_table_once_a_rank_tells_them() -> None:
    session = Paper().session()
    rank = next(iter(session.state.nodes["node2"].ranks.values())).process
    finding = InsideFinding("replicas_differ", "critical", "fc.weight differs", [rank.rank], ["1 of 64"], "x")
    samples: list[NamedTuple] = [
        InsidePulse(rank.pid, 1204, NOW - 42.0, "data", NOW - 41.0),
        InsideResult(rank.pid, "same", NOW - 3.0, [0, 1], False, 0.2, "1 of 2 tensors differs", [finding]),
        tick(NOW),
    ]
    async with screen(session, size=(160, 40)) as shown:
        await shown.press("2")
        session.samples("node2", samples)
        await shown.draw()
        line = next(line for line in shown.lines() if "1204" in line)
        assert line.split()[0] == str(rank.rank)
        assert "data for 41s" in line
        await shown.press("slash", *"now~data", "enter")
        assert "1 of 32 ranks shown" in shown.text()
        await shown.press("i")
        assert "1204 done, in data for 41s" in shown.text()
        assert "1 of 2 tensors differs" in shown.text()
