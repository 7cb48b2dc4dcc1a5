"""The line of time with real keys: what is scrubbed to is shown on every panel, live and in a recording."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from collectors.fleet.sink import LinkChange
from hangtop.diagnosis.finding import Verdict
from hangtop.session.replay import ReplaySession
from hangtop.session.session import Session
from tests.support.piloted import SIZE, Screen, screen
from tests.support.screens import NOW, Paper, PaperSession, hung, say
from tui.app import HangtopApp, ScreenOptions

SECONDS = 100
HANG, LOST = 60, 80


def happened(paper: Paper, session: Session, second: int) -> None:
    """One second of a job that hangs after a minute and then loses a node."""
    paper.clock.now = NOW + second
    for index in range(paper.nodes):
        paper.feed(session, index, second)
    say(session, "node1", 0, NOW + second, f"step {second}")
    if second == 5:
        session.publish(Verdict("healthy", "all is well"))
    if second == HANG:
        session.publish(hung(1, "node1"))
    if second == LOST:
        session.link(LinkChange("node2", "lost", "the link was cut", NOW + second))
    session.tick()


def lived(paper: Paper) -> PaperSession:
    paper.clock.now = NOW
    session = paper.session(ticks=0)
    session.recordings.keep_past()
    for second in range(SECONDS):
        happened(paper, session, second)
    return session


@asynccontextmanager
async def watched(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int] = SIZE) -> AsyncIterator[Screen]:
    paper = Paper(nodes=2, gpus=2)
    session = lived(paper)
    past = session.recordings.past
    monkeypatch.setattr(session.recordings, "keep_past", lambda: None)  # it is kept already
    async with screen(session, size=size) as shown:
        assert session.recordings.past is past
        yield shown


async def settled(shown: Screen) -> None:
    await shown.app.workers.wait_for_complete([each for each in shown.app.workers if each.name == "moment"])
    await shown.draw()


async def test_every_panel_shows_the_moment_that_was_scrubbed_to(monkeypatch: pytest.MonkeyPatch) -> None:
    async with watched(monkeypatch) as shown:
        assert "■ HUNG" in shown.lines()[0]
        assert "⏸" not in shown.text()
        await shown.press("right_square_bracket", *["comma"] * 12)
        await settled(shown)
        timeline = shown.app.model.timeline
        assert timeline.at is not None
        assert NOW < timeline.at < NOW + HANG
        assert "● HEALTHY  all is well" in shown.lines()[0]
        assert "⏸ 02:4" in shown.lines()[0]
        for key, there in (("2", "4 of 4 ranks alive"), ("6", "● live"), ("7", "0 findings"), ("5", "step ")):
            await shown.press(key)
            assert there in shown.text(), key
            assert "⏸ 02:4" in shown.lines()[0]
        assert f"step {int(timeline.at - NOW)}" in shown.text()
        assert f"step {SECONDS - 1}" not in shown.text()
        await shown.press("space")
        await settled(shown)
        assert f"step {SECONDS - 1}" in shown.text()
        assert "■ HUNG" in shown.lines()[0]
        await shown.press("6")
        assert "✖ lost" in shown.text()


async def test_space_pauses_and_goes_back_to_what_is_live(monkeypatch: pytest.MonkeyPatch) -> None:
    async with watched(monkeypatch) as shown:
        session = shown.session
        await shown.press("space")
        await settled(shown)
        paper = Paper(nodes=2, gpus=2, clock=session.clock)
        happened(paper, session, SECONDS + 20)
        await shown.draw()
        assert shown.app.model.now == NOW + SECONDS - 1
        assert "20s before the newest" in shown.text() or "21s before the newest" in shown.text()
        await shown.press("space")
        await settled(shown)
        assert shown.app.model.now == NOW + SECONDS + 20
        assert shown.app.session is session


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "x.hangtop"
    paper = Paper(nodes=2, gpus=2)
    session = Session(paper.session(ticks=0).options, clock=paper.clock)
    session.recordings.record(path)
    for second in range(SECONDS):
        happened(paper, session, second)
    asyncio.run(session.close())
    return path


async def test_any_moment_of_a_recording_is_shown(recorded: Path) -> None:
    session = ReplaySession(recorded)
    app = HangtopApp(session, ScreenOptions(theme="hangtop"))
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        while session.now() < session.until:
            await pilot.pause(0.1)
        app.tick()
        assert app.model.timeline.moment_texts() == ("■ 02:48:39", "the end")
        await pilot.press("comma", "comma")
        await app.workers.wait_for_complete([each for each in app.workers if each.name == "moment"])
        assert app.session is not session
        assert app.session.now() < session.now()
        assert app.model.timeline.moment_texts()[0].startswith("⏸")
        await pilot.press("space")
        assert app.session is session
