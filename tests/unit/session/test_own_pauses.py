"""A look that holds a process for a moment must not change what is known of it."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.samples.ranks import RankPulse
from collectors.samples.stacks import StackDump
from hangtop.session.motion import own_pauses
from hangtop.session.state.job_state import NodeState
from hangtop.session.store import Store
from tests.support.made import hello, process, pulse, stack, tick


class Watched:
    """One rank that sleeps, seen first at 1,001 s."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.store = Store(clock=lambda: self.now)
        self.store.samples("node1", [hello(1000.0), tick(1000.0)], 100)
        self.store.samples("node1", [process(0, pid=41)], 100)
        self.says(1001.0)

    def says(self, at: float, **fields: Any) -> RankPulse:
        """Its pulse of that moment, and what is kept of it."""
        self.now = at
        self.store.samples("node1", [pulse(41, **fields), tick(at)], 100)
        newest = self.node.ranks[41].looks.newest
        assert newest is not None
        return newest

    def answers(self, *dumps: StackDump) -> None:
        """A look of ours brought these."""
        own_pauses.told_by(self.store.state.changes, self.node, dumps)

    @property
    def node(self) -> NodeState:
        return self.store.state.nodes["node1"]

    @property
    def told(self) -> list[str]:
        return [change.text for change in self.store.state.changes if change.kind in ("stopped", "back")]


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_it_is_no_state_of_the_rank(watched: Watched) -> None:
    own_pauses.begin(watched.node, [41])
    assert watched.says(1002.0, state="t").state == "S"
    own_pauses.end(watched.node, [41], 1002.1)
    assert watched.says(1003.0, state="t").state == "S", "a sample may be late"
    assert watched.says(1009.0, state="t").state == "t", "this is a debugger's"
    assert watched.told == ["rank 0 is traced"]


@pytest.mark.parametrize("over", [False, True], ids=["while it lasts", "once it is over"])
def test_a_recorded_look_is_no_tracer_once_it_has_answered(watched: Watched, over: bool) -> None:
    """In a recording nobody says before that one begins."""
    watched.says(1002.0, state="t")
    if over:
        watched.says(1003.0)
    watched.answers(stack(41, "read_shard")._replace(method="native", at=1002.4))
    assert watched.told == []


def test_a_debugger_is_told_though_a_gentle_look_answers(watched: Watched) -> None:
    watched.says(1002.0, state="t")
    watched.answers(stack(41, "read_shard")._replace(at=1002.4))
    watched.answers(stack(41, "main")._replace(method="native", at=1030.0))
    assert watched.told == ["rank 0 is traced"]
