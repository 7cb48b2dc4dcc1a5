"""The findings' panel: it proves what the verdict rests on, and goes on to that when the verdict is another one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hangtop.diagnosis.finding import Verdict
from tests.support.piloted import screen
from tests.support.screens import Paper, PaperSession, hung


def waiting() -> PaperSession:
    """Ranks wait, which is no alarm yet."""
    session = Paper(slow=11).session()
    first = replace(hung().findings[0], kind="waiting", severity="info", summary="31 ranks wait")
    session.publish(Verdict("healthy", "31 ranks wait", findings=(first, hung().findings[1])))
    return session


@pytest.mark.parametrize("moved", [False, True])
async def test_under_a_new_verdict_its_root_cause_is_proved_unless_somebody_chose_a_row(moved: bool) -> None:
    session = waiting()
    first = session.verdict
    assert first is not None
    async with screen(session, size=(80, 24)) as shown:
        await shown.press("7")
        assert "waiting   info" in shown.text()
        if moved:
            await shown.press("down")
        session.publish(replace(hung(), findings=(*hung().findings, first.findings[0])))
        await shown.draw()
        assert ("watchdog_timeout   warning" in shown.text()) is moved
        assert ("rank_stuck_in_data   critical" in shown.text()) is not moved
        await shown.press("1", "7")
        assert "rank_stuck_in_data   critical" in shown.text(), "who comes back is shown the root cause"
