"""The key that shows profiler traces: asked where they are, shown as bars."""

from __future__ import annotations

from pathlib import Path

from tests.support.piloted import Screen, screen
from tests.support.screens import Paper
from tui.dialogs.base import RunningDialog

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


async def test_a_pattern_that_cannot_be_read_is_said() -> None:
    async with screen(Paper(nodes=1).session()) as shown:
        await shown.press("t", "quotation_mark", "enter")
        assert any("No closing quotation" in notice for notice in shown.notices())
