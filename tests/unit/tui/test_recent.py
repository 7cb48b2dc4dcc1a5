"""Looks at what is on the screen: followed one by one, read anew where some may have been missed."""

from __future__ import annotations

import pytest

from collectors.samples.ranks import RankPulse
from hangtop.session.state.job_state import RankState
from tests.support.screens import PID, Paper, PaperSession
from tui.figures import recent as module
from tui.figures.recent import Recent


@pytest.fixture
def paper() -> Paper:
    return Paper(nodes=1, gpus=2)


@pytest.fixture
def session(paper: Paper) -> PaperSession:
    return paper.session(ticks=5)


def rank(session: PaperSession, pid: int = PID) -> RankState:
    return session.state.nodes["node1"].ranks[pid]


def go_on(paper: Paper, session: PaperSession, first: int, ticks: int) -> None:
    for tick in range(first, first + ticks):
        paper.clock.now += 1
        paper.feed(session, 0, tick)


def test_a_look_that_comes_is_added_and_an_old_one_goes(paper: Paper, session: PaperSession) -> None:
    recent, looks = Recent[RankPulse](3), rank(session).looks
    before = [look.at for look in recent.of("a", looks, 1.0)]
    go_on(paper, session, 5, 1)
    after = [look.at for look in recent.of("a", looks, 1.0)]
    assert after == [*before[1:], before[-1] + 1.0]
    assert list(recent.of("a", looks, 1.0)) == list(looks[-3:])


def test_looks_that_came_while_nobody_looked_are_read(paper: Paper, session: PaperSession) -> None:
    recent, looks = Recent[RankPulse](4), rank(session).looks
    recent.of("a", looks, 1.0)
    go_on(paper, session, 5, 3)
    assert list(recent.of("a", looks, 1.0)) == list(looks[-4:])


def test_another_process_under_the_same_key_has_looks_of_its_own(session: PaperSession) -> None:
    recent = Recent[RankPulse](2)
    recent.of("a", rank(session).looks, 1.0)
    assert [look.value.pid for look in recent.of("a", rank(session, PID + 1).looks, 1.0)] == [PID + 1, PID + 1]
    assert [look.value.pid for look in recent.last("a", rank(session).looks)] == [PID, PID]


def test_the_last_two_are_those_followed_unless_newer_ones_came(paper: Paper, session: PaperSession) -> None:
    recent, looks = Recent[RankPulse](4), rank(session).looks
    assert list(recent.last("a", looks)) == list(looks[-2:])
    assert recent.of("a", looks, 1.0) is recent.last("a", looks)
    go_on(paper, session, 5, 1)
    assert list(recent.last("a", looks)) == list(looks[-2:])


def test_what_has_left_the_screen_is_forgotten(monkeypatch: pytest.MonkeyPatch, session: PaperSession) -> None:
    monkeypatch.setattr(module, "MOST", 1)
    recent, looks = Recent[RankPulse](2), rank(session).looks
    first = recent.of("a", looks, 1.0)
    recent.of("b", looks, 1.0)
    assert recent.of("a", looks, 1.0) is not first
