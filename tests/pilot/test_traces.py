"""The key that shows profiler traces: asked where they are, shown as bars; asking the ranks shows the command first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from collectors.probes.trace import fetch
from collectors.probes.trace.remote.program import TraceWay
from collectors.samples.traces import RankTrace
from tests.support.piloted import Screen, screen
from tests.support.screens import Paper
from tui.dialogs.running import RunningDialog

TRACES = Path(__file__).parent.parent / "fixtures" / "traces"


async def answered(shown: Screen) -> str:
    """Wait for the answer under the dialog."""
    for _ in range(200):
        dialog = shown.app.screen
        if isinstance(dialog, RunningDialog) and not dialog.running:
            break
        await shown.pilot.pause(0.02)
    await shown.settle()
    return shown.text()


async def test_traces_here_are_drawn_as_bars() -> None:
    async with screen(Paper(nodes=1).session()) as shown:
        await shown.press("t")
        assert "Files, folders or globs on the nodes" in shown.text()
        shown.app.screen.query_one("Input").value = f"here:{TRACES}/straggler*"  # type: ignore[attr-defined]
        await shown.press("enter")
        text = await answered(shown)
        assert "SLOW  the others wait for rank 1" in text
        assert "straggler_rank" in text
        rows = [line for line in text.splitlines() if "612 ms" in line or "613 ms" in line]
        assert rows[0].count("▒") > 20
        assert rows[1].count("█") > 20
        assert "6/6" in rows[1]
        await shown.press("escape")
        assert "SLOW" not in shown.text()


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_bars_fit_the_screen(size: tuple[int, int]) -> None:
    async with screen(Paper(nodes=1).session(), size=size) as shown:
        await shown.press("t")
        shown.app.screen.query_one("Input").value = f"here:{TRACES}/straggler*"  # type: ignore[attr-defined]
        await shown.press("enter")
        (row,) = [line for line in (await answered(shown)).splitlines() if "6/6" in line]
        assert row.count("█") > 0.2 * size[0]
        inside = row.split("│")[1]
        assert inside.rstrip().endswith("·")


async def test_traces_on_nodes_without_connections_say_why() -> None:
    async with screen(Paper(nodes=2).session()) as shown:
        await shown.press("t", *"/tmp/x", "enter")
        text = await answered(shown)
        assert "FAILED" in text
        assert "node2:/tmp/x: node2: this session has no connections" in text


async def test_a_pattern_that_cannot_be_read_is_said() -> None:
    async with screen(Paper(nodes=1).session()) as shown:
        await shown.press("t", "quotation_mark", "enter")
        assert any("No closing quotation" in notice for notice in shown.notices())


async def test_ranks_that_cannot_be_asked_say_what_would_let_them() -> None:
    async with screen(Paper(nodes=1, gpus=2).session()) as shown:
        await shown.press("T")
        text = shown.text()
        assert "No rank can be asked for a trace" in text
        assert "this session has no connections" in text
        assert "KINETO_USE_DAEMON=1" in text


async def test_the_command_is_shown_before_the_ranks_are_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    from collectors.formats import kineto

    session = Paper(nodes=1, gpus=2).session()
    asked: list[float] = []

    async def survey(transport: object, python: str, ranks: list[tuple[int, int]]) -> list[TraceWay]:
        return [TraceWay(rank, pid, "") for rank, pid in ranks]

    async def capture(
        transport: object, python: str, ranks: list[tuple[int, int]], seconds: float, token: str
    ) -> list[RankTrace]:
        asked.append(seconds)
        return [kineto.read(str(TRACES / f"straggler_rank{rank}.json.gz")) for rank, _ in ranks]

    monkeypatch.setattr(fetch, "survey", survey)
    monkeypatch.setattr(fetch, "capture", capture)
    monkeypatch.setattr(session, "transport", lambda node: None)
    monkeypatch.setattr(session, "python", lambda node: "python3")
    async with screen(session) as shown:
        await shown.press("T")
        assert "2 ranks on 1 node, the profiler runs for 2 s" in shown.text()
        await shown.press("e")
        assert "on node1: dyno gputrace --pids " in shown.text()
        await shown.press("n")
        assert asked == []
        await shown.press("T", "y")
        assert "the others wait for rank 1" in await answered(shown)
        assert asked == [2.0]
        assert session.job().traces is not None


async def test_read_only_refuses_to_trace() -> None:
    session = Paper(nodes=1).session()
    session.options = replace(session.options, read_only=True)
    async with screen(session) as shown:
        await shown.press("T")
        assert any("refused, because --read-only was given" in notice for notice in shown.notices())
