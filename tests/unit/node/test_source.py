"""The filter that lets only changes pass, and the thread around a source."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pytest

from collectors.node.blocking import BlockingGuard
from collectors.node.changes import ChangeFilter
from collectors.node.runner import Runner
from collectors.node.source import Absent, Denied, NotResponding, Shared, Source
from collectors.samples.host import Counters, Interface
from collectors.samples.ranks import Helper, ProcessGone
from collectors.samples.stream import SourceState


def link(name: str, mtu: int = 1500) -> Interface:
    return Interface(name, mtu, None, True, [], "physical")


def test_only_changes_pass() -> None:
    news = ChangeFilter()
    assert news.changed([link("eth0"), link("eth1")]) == [link("eth0"), link("eth1")]
    assert news.changed([link("eth0"), link("eth1", 9000)]) == [link("eth1", 9000)]
    counted = Counters("", "tcp", {"OutSegs": 1})
    assert news.changed([counted]) == [counted]
    assert news.changed([counted]) == []


def test_a_pid_that_comes_back_is_told_anew() -> None:
    news = ChangeFilter()
    helper = Helper(7, 5, "helper", "S", "", 0, "x")
    assert news.changed([helper]) == [helper]
    assert news.changed([helper]) == []
    assert news.changed([ProcessGone(7, 5.0), helper]) == [ProcessGone(7, 5.0), helper]


class Scripted(Source):
    """A source whose looks a test provides."""

    looks: list[Callable[[], Iterable[NamedTuple]]]
    deadline = 0.05

    def read(self, _now: float) -> Iterable[NamedTuple]:
        return self.looks.pop(0)()


def run(*looks: Callable[[], Iterable[NamedTuple]]) -> tuple[Runner, threading.Condition]:
    kind = type("Kind", (Scripted,), {"looks": list(looks)})
    finished = threading.Condition()
    return Runner("it", lambda: kind, Shared(), finished), finished


def harvest(runner: Runner, finished: threading.Condition, moment: float) -> list[Any]:
    runner.ask(moment)
    with finished:
        assert finished.wait_for(lambda: not runner.busy, 60)
    return runner.harvest(moment)


def raising(error: Exception) -> Callable[[], Iterable[NamedTuple]]:
    def look() -> Iterator[NamedTuple]:
        yield link("before")
        raise error

    return look


@pytest.mark.parametrize(
    ("error", "state", "why"),
    [
        (Absent("no driver"), "absent", "no driver"),
        (Denied("needs root"), "denied", "needs root"),
        (NotResponding("/data (nfs4 srv:/x)"), "late", "no answer from /data (nfs4 srv:/x)"),
        (KeyError("bug"), "failed", "KeyError: 'bug'"),
    ],
)
def test_what_a_look_raises_becomes_a_state(error: Exception, state: str, why: str) -> None:
    runner, finished = run(raising(error), lambda: [link("after")], raising(error))
    told, kept = harvest(runner, finished, 10.0)
    assert (told.source, told.state) == ("it", state)
    assert told.why.startswith(why)
    assert kept == link("before")
    runner.ask(11.0)
    assert not runner.busy, "asked again too soon"
    told, kept = harvest(runner, finished, 50.0)
    assert (told.state, told.why, kept) == ("ok", "", link("after"))


def test_a_look_over_its_deadline_is_late_once_and_then_well_again() -> None:
    release = threading.Event()

    def slow() -> Iterable[NamedTuple]:
        release.wait(10)
        return [link("late")]

    runner, finished = run(list, slow)
    harvest(runner, finished, 1.0)
    runner.ask(2.0)
    assert runner.harvest(2.0) == []
    late: list[Any] = runner.harvest(3.0)
    (told,) = late
    assert isinstance(told, SourceState)
    assert (told.state, told.why) == ("late", "no answer within 0.05 s")
    assert told.since <= time.time() - 1.0
    assert runner.harvest(4.0) == []
    release.set()
    with finished:
        assert finished.wait_for(lambda: not runner.busy, 60)
    well: list[Any] = runner.harvest(4.0)
    told, kept = well
    assert (told.state, kept) == ("ok", link("late"))


def test_one_question_that_hangs_leaves_the_others_answered() -> None:
    release = threading.Event()
    guard = BlockingGuard(0.05)

    def question(path: str) -> bool:
        if path == "missing":
            raise FileNotFoundError
        return path != "hangs" or release.wait(10)

    answers = guard.ask(["a", "missing", "hangs", "d"], question)
    assert answers["a"] is True
    assert isinstance(answers["missing"], FileNotFoundError)
    assert set(answers) == {"a", "missing"}
    assert guard.stuck == {"hangs"}
    assert guard.ask(["hangs", "d"], question) == {"d": True}
    release.set()
    while guard.stuck:
        time.sleep(0.001)
    assert guard.ask(["hangs"], question) == {"hangs": True}
