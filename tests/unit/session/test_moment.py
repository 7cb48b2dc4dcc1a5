"""A moment that is made of the past is what a session would have been that had seen no more."""

from __future__ import annotations

import asyncio
import errno
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from collectors.fleet.sink import LinkChange
from collectors.fleet.transport import TransportError
from hangtop.session.moment import Moment, moment_at
from hangtop.session.session import Session
from hangtop.session.state.job_state import NodeState
from hangtop.session.tape.ring import EVERY, LIMIT, MOST_NODES, Ring
from tests.support.made import hello
from tests.support.screens import NOW, Paper, PaperSession, hung, say


def played(
    paper: Paper, session: PaperSession, seconds: int, then: Callable[[int], None] = lambda second: None
) -> None:
    """Let the job run, and what is to happen in it."""
    for second in range(seconds):
        paper.clock.now = NOW + second
        for index in range(paper.nodes):
            paper.feed(session, index, second)
        then(second)
        session.tick()


def kept(paper: Paper) -> PaperSession:
    paper.clock.now = NOW - 1
    session = paper.session(ticks=0)
    session.keeping.keep_past()
    return session


def alike(one: NodeState, other: NodeState) -> None:
    """Two nodes in the same state; which past they read from is told by what they read."""
    for name in NodeState.__slots__:
        if name not in {"gpu_rows", "pulses", "version", "received_bytes", "clock_offset"}:
            assert getattr(one, name) == getattr(other, name), name
    for mine, theirs in zip(one.gpus.values(), other.gpus.values(), strict=True):
        assert list(mine.looks) == list(theirs.looks)


@pytest.mark.parametrize("second", [0, 3, int(EVERY) - 1, int(EVERY), int(EVERY) + 1, 70])
def test_a_moment_is_the_session_that_had_seen_no_more(second: int) -> None:
    paper = Paper(nodes=3, gpus=2)
    session = kept(paper)
    played(paper, session, 90)
    assert session.keeping.past is not None
    moment = moment_at(session.options, session.keeping.past, NOW + second)
    other = Paper(nodes=3, gpus=2)
    then = kept(other)
    played(other, then, second + 1)
    assert moment.now() == then.now() == NOW + second
    assert list(moment.state.nodes) == list(then.state.nodes)
    for name, node in moment.state.nodes.items():
        alike(node, then.state.nodes[name])


def test_it_goes_on_from_there() -> None:
    paper = Paper(nodes=2, gpus=2)
    session = kept(paper)
    played(paper, session, 60)
    assert session.keeping.past is not None
    moment = moment_at(session.options, session.keeping.past, NOW + 25)
    moment.play(session.keeping.past.read(moment.at, NOW + 50), NOW + 50)
    for name, node in moment_at(session.options, session.keeping.past, NOW + 50).state.nodes.items():
        alike(node, moment.state.nodes[name])


def test_what_the_session_keeps_itself_is_shown_as_far_as_it_was_known() -> None:
    paper = Paper(nodes=2, gpus=2)
    session = kept(paper)

    def then(second: int) -> None:
        say(session, "node1", 0, NOW + second, f"line {second}")
        if second == 30:
            session.link(LinkChange("node2", "lost", "cut", NOW + 30))
            session.publish(hung(1, "node1"))
            for node, dump in paper.stacks(NOW + 30):
                session.samples(node, [dump], 0)

    played(paper, session, 50, then)
    assert session.keeping.past is not None
    for second in (20, 40):
        moment = moment_at(session.options, session.keeping.past, NOW + second)
        moment.show(session)
        after = second > 30
        assert [lines.lines for _, lines in moment.state.log_lines] == [[f"line {each}"] for each in range(second + 1)]
        assert len(moment.state.stacks) == (4 if after else 0)
        assert (moment.verdict is not None) == after
        assert any(change.kind == "lost" for change in moment.state.changes) == after
        assert moment.state.nodes["node2"].link == ("lost" if after else "live")


async def test_nobody_can_be_asked_in_a_moment() -> None:
    paper = Paper(nodes=1, gpus=1)
    session = kept(paper)
    played(paper, session, 5)
    assert session.keeping.past is not None
    moment = moment_at(session.options, session.keeping.past, NOW + 2)
    assert not moment.can_act
    assert moment.live
    with pytest.raises(TransportError, match="node1: this is a moment of the past"):
        moment.transport("node1")
    with pytest.raises(TransportError, match="moment"):
        moment.python("node1")
    await moment.start(watching=False)
    await moment.close()


def test_the_oldest_gives_way_and_what_is_left_can_be_shown() -> None:
    paper = Paper(nodes=4, gpus=8)
    session = kept(paper)
    assert session.keeping.past is not None
    session.keeping.past._limit = 200_000
    played(paper, session, 300)
    past = session.keeping.past
    assert sum(part.file.tell() for part in past._parts) < 2 * 200_000
    assert NOW < past.first < NOW + 299
    moment = moment_at(session.options, past, NOW)
    assert moment.at == past.first
    assert len(moment.state.nodes) == 4


def test_a_session_that_knew_something_already_begins_with_that() -> None:
    paper = Paper(nodes=2, gpus=2)
    session = paper.session(ticks=5)
    session.keeping.keep_past()
    assert session.keeping.past is not None
    assert session.keeping.past.first == NOW
    moment = moment_at(session.options, session.keeping.past, NOW - 100)
    assert isinstance(moment, Moment)
    assert sorted(moment.state.nodes) == ["node1", "node2"]


def test_a_full_disk_ends_the_past_and_not_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    paper = Paper(nodes=1, gpus=1)
    session = kept(paper)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Ring, "samples", full)
    played(paper, session, 3)
    assert session.keeping.past is None
    assert session.keeping.no_past == "the past is no longer kept: No space left on device"
    assert [*session.state.changes][-1].text == session.keeping.no_past or session.keeping.no_past in [
        change.text for change in session.state.changes
    ]
    assert len(session.state.nodes["node1"].gpus[0].looks) == 3


def test_a_disk_that_takes_nothing_more_ends_the_past_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Path("/dev/full").open("r+b"))  # noqa: SIM115
    paper = Paper(nodes=1, gpus=1)
    session = kept(paper)
    played(paper, session, 3)
    session.tick()
    assert session.keeping.past is None
    assert session.keeping.no_past == "the past is no longer kept: No space left on device"
    played(paper, session, 3)
    asyncio.run(session.close())


def test_of_a_job_that_is_too_large_no_past_is_kept_and_it_says_so() -> None:
    session = Session(Paper(nodes=1).session(ticks=0).options, clock=lambda: NOW)
    session.keeping.keep_past()
    for number in range(MOST_NODES + 1):
        session.samples(f"n{number}", [hello(NOW)], 1)
    session.tick()
    assert session.keeping.past is None
    assert f"more than {MOST_NODES} nodes" in session.keeping.no_past
    assert LIMIT > 0
