"""Every action of the registry: a key, words, and it works where it is valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.session.probes import Probe, ProbeResult, Say
from tests.support.piloted import screen
from tests.support.screens import NOW, Paper, hung, kernel_line, say
from tui.actions import ACTIONS, BY_ID, Action
from tui.app import HangtopApp, ScreenOptions
from tui.handlers.ask import asks

HOME = {"again": "6", "log": "5", "metric": "1"}
"""Panel on which an action with this need can be tried; the ranks otherwise."""


def test_ids_and_keys_are_unique() -> None:
    assert len(BY_ID) == len(ACTIONS)
    keys = [(key, action.needs) for action in ACTIONS for key in action.keys.split(",")]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("group", sorted({action.group for action in ACTIONS}))
async def test_every_key_of_every_action_works_on_the_screen(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Paper(slow=11).session()
    session.verdict = hung()
    say(session, "node1", 0, NOW - 2, "fine", "ERROR: not fine", "fine")
    kernel_line(session, "node2", NOW - 1, "NVRM: Xid (PCI:0000:03:00): 79")
    ran: list[str] = []
    real = HangtopApp.action_do

    async def spy(app: HangtopApp, name: str) -> None:
        ran.append(name)
        await real(app, name)

    monkeypatch.setattr(HangtopApp, "action_do", spy)
    async with screen(session, ScreenOptions(theme="hangtop", report_folder=tmp_path), size=(100, 30)) as shown:
        tried = [(action, key) for action in ACTIONS if action.group == group for key in action.keys.split(",")]
        for action, key in tried:
            if shown.app._exit:
                assert action.id == "quit"
                break
            shown.app.screen.query("#filterline").remove()
            while len(shown.app.screen_stack) > 1:
                await shown.app.pop_screen()
            if not action.valid(shown.app.panel.CAN):
                await shown.press(HOME.get(action.needs, "2"))
            ran.clear()
            await shown.press(key)
            assert ran == [action.id], key
            assert not [note for note in shown.notices() if "Error" in note]


async def test_read_only_refuses_what_touches_nodes_and_allows_looking() -> None:
    async with screen(Paper(read_only=True).session()) as shown:
        assert "read-only" in shown.lines()[0]
        await shown.press("2", "a")
        assert "Probe: refused, because --read-only was given" in shown.notices()
        await shown.press("d")
        assert shown.session.dumped == [({0}, False)]


async def test_what_touches_the_job_shows_the_exact_command_and_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    async def run(_: Say) -> ProbeResult:
        done.append("ran")
        return ProbeResult("Probe", "ok", "it goes on")

    def made(_: HangtopApp) -> Probe:
        return Probe("Probe", "1 process on 1 node, SIGCONT", "ssh node1 'kill -CONT 41011; echo [/markup]'", run)

    probe = Action("report", "x", "Probe", "Runs something.", asks(made), "Job", "", 11, changes=True)
    monkeypatch.setitem(BY_ID, "report", probe)
    async with screen() as shown:
        await shown.press("x")
        assert "1 process on 1 node, SIGCONT" in shown.text()
        assert "ssh node1" not in shown.text()
        await shown.press("e")
        assert "ssh node1 'kill -CONT 41011; echo [/markup]'" in shown.text()
        await shown.press("enter")
        assert not done
        await shown.press("x", "y")
        assert done == ["ran"]


async def test_the_report_is_written_here_and_the_screen_says_where(tmp_path: Path) -> None:
    session = Paper(slow=11).session()
    session.verdict = hung()
    kernel_line(session, "node2", NOW - 1, "NVRM: Xid (PCI:0000:03:00): 79 \x1b[31m")
    async with screen(session, ScreenOptions(theme="hangtop", report_folder=tmp_path / "reports")) as shown:
        await shown.press("x")
        assert {path.stat().st_mode & 0o777 for path in (tmp_path / "reports").iterdir()} == {0o600}
        text = (tmp_path / "reports" / "hangtop-20251120-024700.txt").read_text()
        assert "rank_stuck_in_data" in text
        assert "11: node2 pid 41011 D nfs_wait_bit_killable" in text
        assert "NVRM: Xid" in text
        data = (tmp_path / "reports" / "hangtop-20251120-024700.json").read_text()
        assert '"verdict": "hung"' in data
        assert any("hangtop-20251120-024700.txt" in note for note in shown.notices())
