"""What the job's own witnesses tell by consent: offered by a key, with command and risk, and asked after a yes."""

from __future__ import annotations

import pytest

from collectors.fleet.local import Local
from collectors.probes import ras
from tests.support.piloted import screen
from tests.support.screens import Paper, PaperSession


def newer(session: PaperSession, nccl: str) -> PaperSession:
    """The same job with this NCCL."""
    for node in session.state.nodes.values():
        for rank in node.ranks.values():
            rank.process = rank.process._replace(versions={**rank.process.versions, "nccl": nccl})
    return session


async def test_diagnostics_are_asked_for_after_a_yes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def command(*words: object, **_: object) -> str:
        asked.append(str(words[-1]))
        return "[INFO] ECC: unavailable [/b] via NVML"

    monkeypatch.setattr(ras, "command", command)
    monkeypatch.setattr(PaperSession, "transport", lambda _session, node: Local(node))
    monkeypatch.setattr(PaperSession, "python", lambda _session, _node: "python3")
    async with screen(newer(Paper(nodes=2).session(), "2.32.3")) as shown:
        await shown.press("M", "down", "down", "down", "enter")
        assert "every process of the job compares its GPUs" in shown.text()
        await shown.press("n")
        assert asked == []
        await shown.press("M", "down", "down", "down", "enter")
        await shown.press("y")
        assert asked == ["DIAGNOSTICS"]
        assert "[INFO] ECC: unavailable [/b] via NVML" in shown.text()


@pytest.mark.parametrize(
    ("downs", "why"),
    [(3, "DIAGNOSTICS came with NCCL 2.31; the ranks have 2.30.7")],
)
async def test_what_cannot_be_asked_says_why(downs: int, why: str) -> None:
    async with screen(newer(Paper(nodes=2).session(), "2.30.7")) as shown:
        await shown.press("4", "M", *["down"] * downs, "enter")
        assert any(why in notice for notice in shown.notices())


async def test_counts_are_asked_for_with_the_risk_that_old_ones_bear() -> None:
    async with screen(newer(Paper(nodes=2).session(), "2.28.9")) as shown:
        await shown.press("M", "down", "down", "enter")
        assert "NCCL's RAS tells 3 times what each rank has launched" in shown.text()
        assert "2.28.9 can crash a job" in shown.text()
        await shown.press("n")
