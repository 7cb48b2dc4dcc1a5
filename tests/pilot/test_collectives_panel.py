"""The panel of collectives: the rank that has not launched what the others wait in, and from there to the rank."""

from __future__ import annotations

from collectors.samples.collectives import Collective, RecorderDump
from tests.support.piloted import screen
from tests.support.screens import NOW, Paper, PaperSession

OPS = ("broadcast", "all_reduce", "all_gather", "all_reduce")


def entry(rank: int, seq: int, *, open_: bool, size: int = 4096) -> Collective:
    """One collective of one rank, finished or not."""
    return Collective(
        rank=rank, group="0", group_description="default_pg", seq=seq, op=OPS[seq % 4], backend="nccl", p2p=False,
        peer=None, input_sizes=[[size]], input_dtypes=["Float"],
        state="started" if open_ else "completed", retired=not open_, created=NOW - 100 + seq, started=None,
        completed=None, timeout=600.0, frames=[],
    )  # fmt: skip


def dump(rank: int, last: int, *, waits: bool = True) -> RecorderDump:
    """Dump of a rank that launched up to ``last``."""
    entries = [entry(rank, seq, open_=waits and seq == last) for seq in range(1, last + 1)]
    return RecorderDump(rank, "2.10", f"node1:/tmp/fr_{rank}", NOW - 12, {"0": list(range(8))}, [], entries)


def stuck() -> PaperSession:
    """Rank 5 has not launched #30, in which the other seven wait."""
    session = Paper(nodes=1).session()
    session.state.recorders.update({rank: dump(rank, 29 if rank == 5 else 30, waits=rank != 5) for rank in range(8)})
    return session


async def test_the_rank_that_did_not_come_is_marked_and_enter_goes_to_it() -> None:
    async with screen(stuck()) as shown:
        await shown.press("9")
        text = shown.text()
        assert "group default_pg  8 ranks  waits for 1m10s  by node1:/tmp/fr_0 and 7 others" in text
        assert any("▸ rank 5 node1" in line and line.rstrip().endswith("✖ launched #29 last") for line in shown.lines())
        assert any("ranks 0-4,6-7" in line and "… waits in all_gather #30" in line for line in shown.lines())
        await shown.press("down", "enter")
        assert "[Ranks]" in shown.lines()[1]
        assert "rank=5" in shown.text()
        await shown.press("escape")
        assert "[Groups]" in shown.lines()[1]
