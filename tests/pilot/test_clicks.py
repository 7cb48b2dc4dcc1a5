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


@pytest.mark.parametrize("words", ["Esc close", "close"])
async def test_a_key_of_a_dialog_that_is_clicked_is_pressed(words: str) -> None:
    async with screen() as shown:
        await shown.press("question_mark")
        await click_on(shown, "↑↓")
        assert len(shown.app.screen_stack) == 2, "two keys at once are none"
        await click_on(shown, "/ find")
        assert shown.app.screen.query("FilterLine")
        await shown.press("escape")
        await click_on(shown, words)
        assert len(shown.app.screen_stack) == 1


async def test_beside_the_keys_of_a_dialog_nothing_is_pressed() -> None:
    async with screen() as shown:
        await shown.press("question_mark")
        y = next(y for y, line in enumerate(shown.lines()) if "Esc close" in line)
        await shown.pilot.click(offset=(100, y))
        await shown.pilot.click(offset=(60, 3))
        await shown.settle()
        assert len(shown.app.screen_stack) == 2


async def test_what_asks_is_answered_by_a_click_on_an_answer_alone() -> None:
    async with screen() as shown:
        await shown.press("a")
        await click_on(shown, "e exact command")
        assert "e hide it" in shown.text()
        await click_on(shown, "n leave it")
        assert len(shown.app.screen_stack) == 1
        assert not shown.notices()


async def test_an_entry_of_a_list_is_gone_to_by_a_click_and_chosen_by_two() -> None:
    async with screen() as shown:
        await shown.press("M")
        await click_on(shown, "Measure InfiniBand and RoCE")
        assert "> Measure InfiniBand and RoCE" in shown.text()
        await click_on(shown, "Capture packets", times=2)
        assert "What else can be measured" not in shown.text()


async def test_a_column_is_hidden_by_two_clicks() -> None:
    async with screen() as shown:
        await shown.press("2", "o")
        before = sum("[x]" in line for line in shown.lines())
        await click_on(shown, "[x] pid", times=2)
        assert sum("[x]" in line for line in shown.lines()) == before - 1


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
