"""The stacks panel: who is where, the fewest first, and from there to one rank's full stack."""

from __future__ import annotations

from tests.support.piloted import screen
from tests.support.screens import NOW, Paper, PaperSession


def dumped(paper: Paper, *times: float) -> PaperSession:
    session = paper.session()
    for at in times:
        session.state.stacks.extend(paper.stacks(at))
    return session


async def test_the_odd_rank_comes_first_and_what_sets_it_apart_is_marked() -> None:
    async with screen(dumped(Paper(slow=11), NOW - 4)) as shown:
        await shown.press("8")
        text = shown.text()
        assert "32 ranks in 2 groups   taken 4s ago" in text
        assert text.index("1 rank    11  node2") < text.index("31 ranks  0-10,12-31  4 nodes")
        assert "▸ read_shard (data.py:88)" in text
        assert "▸ train (train.py:203)" not in text


async def test_enter_shows_the_full_stacks_of_a_group() -> None:
    async with screen(dumped(Paper(slow=11), NOW - 4)) as shown:
        await shown.press("8", "enter")
        assert "rank 11 · node2" in shown.text()
        assert "read_shard  /home/ada/run/data.py:88" in shown.text()
        await shown.press("escape", "down", "enter")
        assert "ranks 0-10,12-31 · 4 nodes, the first 16 of them" in shown.text()
        assert "torch/distributed/distributed_c10d.py:2810" in shown.text()


async def test_a_rank_that_could_not_be_looked_at_says_why() -> None:
    paper = Paper(nodes=1, slow=3)
    session = dumped(paper, NOW - 4)
    node, dump = session.state.stacks.pop()
    refused = dump._replace(threads=[], error="denied: [/x] ptrace", way_out="sudo sysctl kernel.yama.ptrace_scope=0")
    session.state.stacks.append((node, refused))
    async with screen(session) as shown:
        await shown.press("8")
        assert "denied: [/x] ptrace" in shown.text()
        await shown.press("down", "enter")
        assert "what would help: sudo sysctl kernel.yama.ptrace_scope=0" in shown.text()


async def test_dumping_leads_to_the_stacks_and_a_native_dump_asks_first() -> None:
    async with screen(Paper(nodes=1).session()) as shown:
        await shown.press("2", "down", "ctrl+n")
        assert "1 rank on 1 node, native stacks, each paused for about 25 ms" in shown.text()
        await shown.press("e")
        assert "node1: py-spy dump --json --pid 41001 --native --locals" in shown.text()
        await shown.press("n")
        assert shown.session.dumped == []
        await shown.press("ctrl+n", "y")
        assert shown.session.dumped == [({1}, True)]
        assert "[Stacks]" in shown.lines()[1]
        assert "no stack taken yet" in shown.text()
        await shown.press("escape")
        assert "[Ranks]" in shown.lines()[1]
