"""What ranks tell of themselves, on the screen."""

from __future__ import annotations

from typing import NamedTuple

from collectors.samples.inside import InsideFinding, InsidePulse, InsideResult
from collectors.samples.stream import Tick
from tests.support.piloted import screen
from tests.support.screens import NOW, Paper, PaperSession

END = Tick(1, NOW, 0.01, 0.1, 9 << 20)


def telling(session: PaperSession) -> int:
    """Let the first rank of node2 say where it is; its number."""
    rank = next(iter(session.state.nodes["node2"].ranks.values())).process
    finding = InsideFinding("replicas_differ", "critical", "fc.weight differs", [rank.rank], ["1 of 64"], "x")
    samples: list[NamedTuple] = [
        InsidePulse(rank.pid, 1204, NOW - 42.0, "data", NOW - 41.0),
        InsideResult(rank.pid, "same", NOW - 3.0, [0, 1], False, 0.2, "1 of 2 tensors differs", [finding]),
        END,
    ]
    session.samples("node2", samples)
    return rank.rank


async def test_step_and_phase_stand_in_the_table_once_somebody_tells_them() -> None:
    session = Paper().session()
    async with screen(session, size=(160, 40)) as shown:
        await shown.press("2")
        rank = telling(session)
        await shown.draw()
        line = next(line for line in shown.lines() if "1204" in line)
        assert line.split()[0] == str(rank)
        assert "data" in line
        assert "41s" in line
        await shown.press("slash", *"now~data", "enter")
        assert "1 of 32 ranks shown" in shown.text()
        await shown.press("i")
        facts = shown.text()
        assert "1204 done, in data for 41s" in facts
        assert "1 of 2 tensors differs" in facts
