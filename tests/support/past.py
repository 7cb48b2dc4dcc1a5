"""A job on paper that has a past: it hangs after a minute, and then loses a node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from collectors.fleet.sink import LinkChange
from hangtop.diagnosis.finding import Verdict
from hangtop.session.session import Session
from tests.support.piloted import SIZE, Screen, screen
from tests.support.screens import NOW, Paper, PaperSession, hung, say

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
