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


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
@pytest.mark.parametrize("moved", [False, True])
async def test_under_a_new_verdict_its_root_cause_is_proved_unless_somebody_chose_a_row(
    size: tuple[int, int], moved: bool
) -> None:
    session = waiting()
    first = session.verdict
    assert first is not None
    async with screen(session, size=size) as shown:
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


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        (Verdict("healthy", "all is well"), "nothing found: the job is healthy"),
        (Verdict("unknown", "nothing was seen"), "nothing found: too little is known to say how the job is"),
    ],
)
async def test_where_nothing_was_found_it_says_what_that_means(verdict: Verdict, told: str) -> None:
    session = Paper(nodes=1).session()
    session.publish(verdict)
    async with screen(session, size=(80, 24)) as shown:
        await shown.press("7")
        assert told in shown.text()
