"""Leaving, and what is not lost: answers are kept, the way back is told, failures are said."""

from __future__ import annotations

import pytest

from collectors.fleet.transport import SshConfigError
from tests.support.piloted import screen
from tests.support.screens import Paper
from tui.app import HangtopApp, ScreenOptions


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


async def test_answers_are_kept_and_can_be_read_again() -> None:
    async with screen() as shown:
        await shown.press("R")
        assert "no result yet" in shown.notices()[-1]
        await shown.press("e", "escape", "P", "y", "escape", "R")
        text = shown.text()
        assert text.index("Path probe") < text.index("Environment lint")
        await shown.press("enter")
        assert "probe_absent" in shown.text()
