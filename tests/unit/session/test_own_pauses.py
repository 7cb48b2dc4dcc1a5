"""A look that holds a process for a moment must not change what is known of it."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.samples.ranks import RankPulse
from hangtop.session.motion import own_pauses
from hangtop.session.state.job_state import NodeState
from hangtop.session.store import Store
from tests.support.made import hello, process, pulse, stack, tick

SLEPT_SINCE = 900.0


class Watched:
    """One rank that sleeps since 900 s, seen first at 1,001 s."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.store = Store(clock=lambda: self.now)
        self.store.samples("node1", [hello(1000.0), tick(1000.0)], 100)
        self.store.samples("node1", [process(0, pid=41)], 100)
        self.says(1001.0)

    def says(self, at: float, **fields: Any) -> RankPulse:
        """Its pulse of that moment, and what is kept of it."""
        self.now = at
        given: dict[str, Any] = {"idle_since": SLEPT_SINCE, "voluntary_switches": 50, **fields}
        self.store.samples("node1", [pulse(41, **given), tick(at)], 100)
        newest = self.node.ranks[41].looks.newest
        assert newest is not None
        return newest

    @property
    def node(self) -> NodeState:
        return self.store.state.nodes["node1"]

    def look(self, began: float, ended: float) -> None:
        """A look of ours holds it."""
        own_pauses.begin(self.node, [41], began)
        own_pauses.end(self.node, [41], ended)


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_it_is_no_state_of_the_rank(watched: Watched) -> None:
    own_pauses.begin(watched.node, [41], 1001.5)
    assert watched.says(1002.0, state="t").state == "S"
    own_pauses.end(watched.node, [41], 1002.1)
    assert watched.says(1003.0, state="t").state == "S", "a sample may be late"
    assert watched.says(1009.0, state="t").state == "t", "this is a debugger's"
    assert [c.text for c in watched.store.state.changes if "traced" in c.text] == ["rank 0 is traced"]


def test_a_wait_that_it_interrupts_began_when_it_began(watched: Watched) -> None:
    watched.look(1002.0, 1002.4)
    assert watched.says(1003.0, idle_since=None, voluntary_switches=52).idle_since == SLEPT_SINCE
    assert watched.says(1005.0, idle_since=1002.3, voluntary_switches=52).idle_since == SLEPT_SINCE
    watched.look(1006.0, 1006.2)
    assert watched.says(1009.0, idle_since=1006.1, voluntary_switches=54).idle_since == SLEPT_SINCE


def test_a_rank_that_went_on_by_itself_waits_anew(watched: Watched) -> None:
    watched.look(1002.0, 1002.4)
    assert watched.says(1003.0, idle_since=None, voluntary_switches=90).idle_since is None, "it made many switches"
    assert watched.says(1005.0, idle_since=1002.6, voluntary_switches=90).idle_since == 1002.6
    assert watched.says(1012.0, idle_since=1009.0, voluntary_switches=90).idle_since == 1009.0


def test_what_slept_before_by_nobodys_word_is_not_made_up(watched: Watched) -> None:
    watched.says(1001.5, idle_since=None, voluntary_switches=51)
    watched.look(1002.0, 1002.4)
    assert watched.says(1005.0, idle_since=1002.3, voluntary_switches=53).idle_since == 1002.3


@pytest.mark.parametrize(
    ("method", "since"), [("native", SLEPT_SINCE), ("blocking", SLEPT_SINCE), ("nonblocking", 1002.3)]
)
def test_a_recording_knows_of_it_by_the_look_itself(watched: Watched, method: str, since: float) -> None:
    own_pauses.told_by(watched.node, [stack(41, "acquire", at=1002.2, method=method)])
    assert watched.says(1005.0, idle_since=1002.3, voluntary_switches=52).idle_since == since


def told(watched: Watched) -> list[str]:
    return [change.text for change in watched.store.state.changes if change.kind in ("stopped", "back")]


@pytest.mark.parametrize("over", [False, True], ids=["while it lasts", "once it is over"])
def test_a_recorded_look_is_no_tracer_once_it_has_answered(watched: Watched, over: bool) -> None:
    """In a recording nobody says before that one begins."""
    watched.says(1002.0, state="t")
    assert told(watched) == ["rank 0 is traced"]
    if over:
        watched.says(1003.0)
        assert told(watched) == ["rank 0 is traced", "rank 0 is running again"]
    looks = [stack(41, "read_shard")._replace(method="native", at=1002.4)]
    own_pauses.told_by(watched.node, looks)
    own_pauses.untell(watched.store.state.changes, watched.node, looks)
    assert told(watched) == []
    watched.says(1003.5)
    assert told(watched) == []


def test_a_debugger_is_told_though_a_gentle_look_answers(watched: Watched) -> None:
    watched.says(1002.0, state="t")
    for looks in (
        [stack(41, "read_shard")._replace(at=1002.4)],
        [stack(41, "main")._replace(method="native", at=1030.0)],
    ):
        own_pauses.told_by(watched.node, looks)
        own_pauses.untell(watched.store.state.changes, watched.node, looks)
    assert told(watched) == ["rank 0 is traced"]


def test_in_a_recording_samples_that_tell_of_the_pause_come_before_the_look(watched: Watched) -> None:
    watched.says(1002.0, idle_since=1001.7, voluntary_switches=54)
    held = stack(41, at=1001.6, method="native")
    watched.now = 1002.2
    own_pauses.told_by(watched.node, [held])
    assert watched.says(1003.0, idle_since=1001.7, voluntary_switches=54).idle_since == SLEPT_SINCE


def test_switches_of_a_rank_that_spins_are_none_of_its_own(watched: Watched) -> None:
    """It sleeps at no look: two looks of ours stopped it for a moment, and it seemed to wake now and then."""
    for at in (1002.0, 1003.0):
        watched.says(at, idle_since=None, state="R", voluntary_switches=50)
    watched.look(1003.2, 1003.5)
    assert watched.says(1004.0, idle_since=None, state="R", voluntary_switches=53).voluntary_switches == 50
    assert watched.says(1009.0, idle_since=None, state="R", voluntary_switches=53).voluntary_switches == 50
    watched.look(1009.2, 1009.5)
    assert watched.says(1010.0, idle_since=None, state="R", voluntary_switches=55).voluntary_switches == 50
    assert watched.says(1020.0, idle_since=None, state="R", voluntary_switches=61).voluntary_switches == 56


def test_switches_of_a_rank_that_goes_on_are_its_own(watched: Watched) -> None:
    watched.look(1001.2, 1001.5)
    assert watched.says(1002.0, idle_since=None, state="R", voluntary_switches=90).voluntary_switches == 90
    assert watched.says(1003.0, idle_since=None, state="R", voluntary_switches=130).voluntary_switches == 130
