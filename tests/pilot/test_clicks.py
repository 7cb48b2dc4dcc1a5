"""The mouse where keys have a place of their own: words of a dialog's last line, entries of lists, the line of time."""

from __future__ import annotations

import pytest

from tests.support.past import settled, watched
from tests.support.piloted import Screen, screen


async def click_on(shown: Screen, words: str, times: int = 1) -> None:
    """Click where these words stand on the screen, the last place of several."""
    y, line = next((y, line) for y, line in reversed(list(enumerate(shown.lines()))) if words in line)
    await shown.pilot.click(offset=(line.index(words) + 1, y), times=times)
    await shown.settle()


async def test_what_asks_is_answered_by_a_click_on_an_answer_alone() -> None:
    async with screen() as shown:
        await shown.press("a")
        await click_on(shown, "e exact command")
        assert "python3 -I -S" in shown.text()
        await click_on(shown, "n leave it")
        assert len(shown.app.screen_stack) == 1
        assert not shown.notices()


async def test_an_entry_of_a_list_is_chosen_by_a_click() -> None:
    async with screen() as shown:
        await shown.press("M")
        await click_on(shown, "Capture packets")
        assert "What else can be measured" not in shown.text()


async def test_a_moment_of_the_line_of_time_is_shown_by_a_click(monkeypatch: pytest.MonkeyPatch) -> None:
    async with watched(monkeypatch) as shown:
        timeline = shown.app.scene.timeline
        chart = shown.app.screen.query_one("#time")
        await shown.pilot.click(chart, offset=(4, 1))
        await settled(shown)
        assert timeline.at is None, "its names are no moments"
        await shown.pilot.click(chart, offset=(chart.size.width - 20, 1))
        await settled(shown)
        reached = [timeline.at]
        assert "⏸ 02:4" in shown.lines()[0]
        await shown.pilot.click(chart, offset=(chart.size.width - 30, 1))
        await settled(shown)
        reached.append(timeline.at)
        assert None not in reached
        assert reached[1] < reached[0]  # type: ignore[operator]
        await shown.press("0")
        await settled(shown)
        assert timeline.at is None
