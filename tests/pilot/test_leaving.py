"""What was seen is not lost: leaving asks once while the alarm is loud, answers are kept, things are copied."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from textual.app import App

from collectors.fleet.transport import SshConfigError
from hangtop.diagnosis.finding import Verdict
from tests.support.piloted import screen
from tests.support.screens import Paper, hung
from tui.app import HangtopApp, ScreenOptions


async def test_q_leaves_a_healthy_job_at_once() -> None:
    session = Paper().session()
    session.verdict = Verdict("healthy", "all is well")
    async with screen(session) as shown:
        await shown.press("q")
        assert shown.app._exit


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


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_while_the_alarm_is_loud_the_first_asks_and_the_second_leaves(key: str) -> None:
    session = Paper(slow=11).session()
    session.verdict = hung()
    async with screen(session) as shown:
        await shown.press(key)
        assert "Leave hangtop?" in shown.text()
        assert "HUNG  rank 11 on node2" in shown.text()
        await shown.press("escape")
        assert not shown.app._exit
        await shown.press(key, key)
        assert shown.app._exit


async def test_a_report_can_be_written_on_the_way_out(tmp_path: Path) -> None:
    session = Paper(slow=11).session()
    session.verdict = hung()
    async with screen(session, ScreenOptions(theme="hangtop", report_folder=tmp_path)) as shown:
        await shown.press("q", "x")
        assert shown.app._exit
        (told,) = shown.app._exit_renderables
        assert str(told).startswith("hangtop: written: hangtop-2")
        assert str(told).endswith(f" in {tmp_path}"), "said whole on the terminal that is left"
    assert ".txt" in " ".join(os.listdir(tmp_path))  # noqa: PTH208 (pathlib blocks as much)


async def test_a_key_that_finds_no_room_on_the_disk_is_said_and_hangtop_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    async with screen(options=ScreenOptions(theme="hangtop", report_folder=tmp_path / "file")) as shown:
        await shown.press("x")
        assert shown.app.is_running
        assert any(notice.startswith("Report: ") and "file" in notice for notice in shown.notices())


async def test_answers_are_kept_and_can_be_read_again() -> None:
    async with screen() as shown:
        await shown.press("R")
        assert "no result yet" in shown.notices()[-1]
        await shown.press("e", "escape", "P", "y", "escape", "R")
        text = shown.text()
        assert text.index("Path probe") < text.index("Environment lint")
        await shown.press("enter")
        assert "probe_absent" in shown.text()


async def test_what_is_looked_at_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(App, "copy_to_clipboard", lambda _app, text: copied.append(text))
    session = Paper(slow=11).session()
    session.verdict = hung()
    async with screen(session) as shown:
        await shown.press("7", "c")
        assert "state D, wchan nfs_wait_bit_killable for 64 s" in copied[-1]
        assert "hangtop stacks node2 --rank 11" in copied[-1]
        await shown.press("1", "c")
        assert "rank: 11 of 32" in copied[-1], "the cursor stands on the culprit"
        await shown.press("y")
    lines = copied[-1].splitlines()
    assert len(lines) <= 10
    assert lines[0] == "HUNG: rank 11 on node2 holds up 31 others: read_shard (data.py:88)"
    assert "4 of 4 nodes up, 32 of 32 ranks alive" in lines[1]
    assert any(line.startswith("- /proc of rank 11: state D") for line in lines)
    assert "also: watchdog_timeout" in lines
    assert lines[-1] == "not known: kernel log"


async def test_the_way_here_is_told_from_panel_to_panel() -> None:
    session = Paper(slow=11).session()
    session.verdict = hung()
    for node, dump in Paper(slow=11).stacks():
        session.samples(node, [dump], 0)
    async with screen(session) as shown:
        await shown.press("7", "enter")
        assert shown.lines()[2].startswith(" Findings › Stacks rank 11   Esc goes back")
        await shown.press("escape")
        assert "›" not in shown.lines()[2]


@pytest.mark.parametrize("panel", [str(number) for number in range(1, 10)])
async def test_a_narrow_footer_keeps_commands_help_and_quit(panel: str) -> None:
    async with screen(size=(80, 24)) as shown:
        await shown.press(panel)
        footer = shown.lines()[-1]
        assert ": Commands" in footer
        assert "? Help" in footer
        assert "q Quit" in footer
