"""Going about with real keys: panels, in and back, filter, sort, marks, palette, help."""

from __future__ import annotations

import pytest
from textual.events import MouseScrollUp
from textual.scrollbar import ScrollTo

from collectors.fleet.transport import SshConfigError
from tests.support.piloted import screen
from tests.support.screens import NOW, Paper, hung, say
from tui.app import HangtopApp, ScreenOptions
from tui.panels.registry import PANELS


@pytest.mark.parametrize(("size", "theme"), [((80, 24), "hangtop"), ((160, 50), "textual-light")])
async def test_every_panel_opens_by_its_number_at_every_size(size: tuple[int, int], theme: str) -> None:
    async with screen(Paper().session(), ScreenOptions(theme=theme), size=size) as shown:
        for number, entry in enumerate(PANELS, 1):
            await shown.press(str(number))
            assert f"[{entry.title}" in shown.lines()[1]
            assert len(shown.lines()) == size[1]
            assert "hangtop" in shown.lines()[0]


async def test_enter_goes_from_node_to_rank_to_its_log_and_esc_all_the_way_back() -> None:
    session = Paper().session()
    say(session, "node2", 9, NOW - 1, "the line of rank 9")
    say(session, "node1", 0, NOW - 1, "the line of rank 0")
    async with screen(session) as shown:
        await shown.press("6", "down", "enter")
        assert "[Ranks]" in shown.lines()[1]
        assert "Nodes › Ranks node=node2" in shown.text()
        assert not any(" node1 " in line for line in shown.lines()[5:14])
        await shown.press("down", "enter")
        assert "[Logs]" in shown.lines()[1]
        assert "the line of rank 9" in shown.text()
        assert "the line of rank 0" not in shown.text()
        assert session.nodes_told.viewed[-1] == {"/logs/rank9.err"}
        await shown.press("escape")
        assert "[Ranks]" in shown.lines()[1]
        assert session.nodes_told.viewed[-1] == set()
        assert shown.app.panel.here() == (9, "node2", 41_009)
        await shown.press("escape")
        assert "[Nodes]" in shown.lines()[1]
        await shown.press("escape")
        assert "[Nodes]" in shown.lines()[1]


async def test_a_panel_opened_by_its_number_counts_all_its_rows_again() -> None:
    async with screen() as shown:
        await shown.press("6", "enter")
        assert "ranks shown" in shown.text()
        await shown.press("escape", "2")
        assert "[Ranks]" in shown.lines()[1]
        assert "ranks shown" not in shown.text()


async def test_a_filter_acts_while_it_is_typed_and_says_what_is_wrong() -> None:
    async with screen() as shown:
        await shown.press("2", "slash", *"rank=3,7-9")
        assert shown.app.panel.query_text == "rank=3,7-9"
        await shown.press("enter")
        assert [row.number for row in shown.app.panel.table.rows] == [3, 7, 8, 9]  # type: ignore[attr-defined]
        await shown.press("slash", *" colour=red")
        assert "no field “colour” here" in shown.text()
        await shown.press("enter")
        assert "no field" in shown.text()
        await shown.press("escape")
        assert shown.app.panel.query_text == "rank=3,7-9"
        await shown.press("escape")
        assert len(shown.app.panel.table.rows) == 32  # type: ignore[attr-defined]


async def test_a_click_opens_tabs_sorts_and_selects() -> None:
    async with screen() as shown:
        await shown.pilot.click("#tabs", offset=(15, 0))
        await shown.pilot.pause()
        assert "[Ranks]" in shown.lines()[1]
        table = shown.app.panel.table  # type: ignore[attr-defined]
        await shown.pilot.click(table, offset=(4, 0))
        assert table.sort_key == "rank"
        await shown.pilot.click(table, offset=(4, 3))
        assert table.current.number == 2


async def test_a_finding_leads_to_its_proof() -> None:
    session = Paper(slow=11).session()
    session.verdict = hung()
    say(session, "node1", 0, NOW - 3, "one", "two", "[rank0]: NCCL WARN Watchdog caught collective timeout", "three")
    async with screen(session) as shown:
        await shown.press("7", "down", "enter")
        assert "[Logs]" in shown.lines()[1]
        line = shown.app.panel.view.current  # type: ignore[attr-defined]
        assert "Watchdog caught" in line.text
        await shown.press("escape")
        assert "[Findings" in shown.lines()[1]


async def test_a_log_that_grew_behind_another_panel_is_followed_on_until_somebody_scrolls() -> None:
    session = Paper(nodes=2).session()
    async with screen(session, size=(100, 20)) as shown:
        for number in range(40):
            say(session, "node1", 0, NOW, f"step {number}")
        await shown.press("5", "1")
        for number in range(40, 90, 10):
            say(session, "node1", 0, NOW + number, *(f"step {number + more}" for more in range(10)))
            await shown.draw()
        await shown.press("5")
        await shown.draw()
        assert "● following" in shown.text()
        assert "step 89" in shown.text()
        log = shown.app.panel.query_one("#log")
        log.post_message(MouseScrollUp(log, 1, 1, 0, -1, 0, False, False, False))
        await shown.pilot.pause()
        await shown.draw()
        assert "⏸ paused" in shown.text()
        say(session, "node1", 0, NOW + 90, "late one", "and two")
        await shown.draw()
        assert "2 new" in shown.text()
        assert "late one" not in shown.text()
        await shown.press("end")
        assert "● following" in shown.text()
        assert "and two" in shown.lines()[-2]
        for y, told in ((80.0, "● following"), (10.0, "⏸ paused")):
            log.post_message(ScrollTo(y=y, animate=False))
            await shown.pilot.pause()
            await shown.draw()
            assert told in shown.text()


async def test_a_session_that_cannot_begin_leaves_no_empty_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Paper().session()

    async def refused() -> None:
        raise SshConfigError("/home/ada/.ssh/config:3: 'nonsense' does not begin with a keyword")

    monkeypatch.setattr(session, "start", refused)
    app = HangtopApp(session, ScreenOptions(theme="hangtop"))
    async with app.run_test() as pilot:
        for _ in range(50):
            await pilot.pause(0.05)
            if app._exit:
                break
    assert "does not begin with a keyword" in str(app.never_began)
