"""The past of a session: any moment of it as a session, and all of it kept as a recording when it ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from collectors.fleet.sink import LinkChange
from hangtop.diagnosis.node import Node
from hangtop.session import recordings
from hangtop.session.options import SessionOptions
from hangtop.session.recording import SNAPSHOT_SECONDS, Recorder
from hangtop.session.recordings import autosaved
from hangtop.session.replay import SeekedSession, replay_session, run_to
from hangtop.session.session import Session
from tests.support.made import hello, process, pulse, tick
from tests.support.screens import NOW, Paper, PaperSession, hung, say


def watched(
    paper: Paper,
    seconds: int,
    folder: Path,
    then: Callable[[PaperSession, int], None] = lambda session, second: None,
    limit: int | None = None,
) -> PaperSession:
    """A session that has watched for so long, and kept its past in a folder."""
    paper.clock.now = NOW - 1
    session = paper.session(ticks=0)
    session.recordings.keep_past(folder)
    assert isinstance(session.recordings.past, Recorder)
    session.recordings.past._limit = limit
    for second in range(seconds):
        paper.clock.now = NOW + second
        for index in range(paper.nodes):
            paper.feed(session, index, second)
        then(session, second)
        session.tick()
    return session


def moment(session: PaperSession, second: float) -> SeekedSession:
    past = session.recordings.past
    assert past is not None
    return SeekedSession(session.options, past.opened(), NOW + second)


def kept(session: Session) -> Path:
    path = session.recordings.autosave()
    assert path is not None
    return path


def replayed(path: Path) -> Session:
    session, feed = replay_session(path)
    run_to(session, feed, feed.recording.span[1])
    assert feed.recording.damage == ""
    return session


SAME = ("link", "sources", "faults", "host", "load", "disks", "log_files", "gpu_processes",
        "gpu_fault", "fabric_services", "port_uses", "ports")  # fmt: skip


def assert_alike(one: Node, other: Node, looks: int) -> None:
    """Two nodes in the same state, with so many of the last looks at their GPUs and ranks."""
    for name in SAME[:-1]:
        assert getattr(one, name) == getattr(other, name), name
    assert {name: (port.facts, port.counters, port.first) for name, port in one.ports.items()} == {
        name: (port.facts, port.counters, port.first) for name, port in other.ports.items()
    }
    for mine, theirs in zip(one.gpus.values(), other.gpus.values(), strict=True):
        assert (mine.facts, list(mine.looks)[-looks:]) == (theirs.facts, list(theirs.looks)[-looks:])
    for pid, rank in one.ranks.items():
        assert (rank.process, rank.gone_at) == (other.ranks[pid].process, other.ranks[pid].gone_at)
        assert list(rank.looks)[-looks:] == list(other.ranks[pid].looks)[-looks:]


@pytest.mark.parametrize("second", [3, int(SNAPSHOT_SECONDS), 2 * int(SNAPSHOT_SECONDS) + 5])
def test_a_moment_is_the_session_that_had_seen_no_more(tmp_path: Path, second: int) -> None:
    session = watched(Paper(nodes=3, gpus=2), 160, tmp_path / "long")
    then = watched(Paper(nodes=3, gpus=2), second + 1, tmp_path)
    found = moment(session, second)
    assert found.now() == then.now() == NOW + second
    assert list(found.state.nodes) == list(then.state.nodes)
    for name, node in found.state.nodes.items():
        assert_alike(node, then.state.nodes[name], 10)


def test_what_the_session_keeps_itself_is_shown_as_far_as_it_was_known(tmp_path: Path) -> None:
    paper = Paper(nodes=2, gpus=2)

    def then(session: PaperSession, second: int) -> None:
        say(session, "node1", 0, NOW + second, f"line {second}")
        if second == 30:
            session.link(LinkChange("node2", "lost", "cut", NOW + 30))
            session.publish(hung(1, "node1"))
            for node, dump in paper.stacks(NOW + 30):
                session.stacks(node, [dump])

    session = watched(paper, 50, tmp_path, then)
    for second in (20, 40):
        found = moment(session, second)
        found.show(session)
        after = second > 30
        assert [lines.lines for _, lines in found.state.log_lines] == [[f"line {each}"] for each in range(second + 1)]
        assert len(found.state.stacks) == (4 if after else 0)
        assert (found.verdict is not None) == after
        assert any(change.kind == "lost" for _, change in found.state.changes) == after
        assert found.state.nodes["node2"].link == ("lost" if after else "live")


def test_all_of_a_session_is_kept_and_played_again(tmp_path: Path) -> None:

    def then(session: PaperSession, second: int) -> None:
        say(session, "node1", 0, NOW + second, f"line {second}")

    folder = tmp_path / "folder"
    session = watched(Paper(nodes=2, gpus=2), 9, folder, then)
    path = kept(session)
    assert [path] == autosaved(folder)
    assert (path.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    again = replayed(path)
    assert again.now() == session.now()
    for name, node in session.state.nodes.items():
        assert_alike(node, again.state.nodes[name], 9)
    told = f"{[*again.state.log_lines]}"
    assert "line 8" in told


@pytest.mark.parametrize("ahead", [0.0, 3000.0])
def test_clocks_that_are_wrong_stay_as_wrong(tmp_path: Path, ahead: float) -> None:
    now = 1000.0
    session = Session(SessionOptions(targets=("node1",)), clock=lambda: now)
    session.recordings.keep_past(tmp_path)
    assert isinstance(session.recordings.past, Recorder)
    session.recordings.past._limit = 2000
    session.link(LinkChange("node1", "live", "", now))
    first: list[NamedTuple] = [
        hello(now + ahead),
        process(0, started=900.0 + ahead),
        process(-1, 77, started=901.0 + ahead),
    ]
    session.samples("node1", [*first, tick(now + ahead)])
    for second in range(1, 200):
        now = 1000.0 + second
        moved = pulse(1000, voluntary_switches=second)
        session.samples("node1", [moved, tick(now + ahead, second)])
        session.tick()
    assert session.recordings.past.first > 1020.0
    again, then = replayed(kept(session)).state.nodes["node1"], session.state.nodes["node1"]
    assert {pid: rank.process for pid, rank in again.ranks.items()} == {
        pid: rank.process for pid, rank in then.ranks.items()
    }
    assert again.ranks[1000].process.started == 900.0
    assert again.ranks[1000].looks.newest == then.ranks[1000].looks.newest
    assert again.clock_offset == then.clock_offset == ahead


def test_the_oldest_recordings_go_and_only_they(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    monkeypatch.setattr(recordings, "MOST_FILES", 3)
    made = []
    for number in range(5):
        session = Session(SessionOptions(targets=("node1",)), clock=lambda: NOW + number)  # noqa: B023 - of this turn
        session.recordings.keep_past(tmp_path)
        made.append(kept(session))
        os.utime(made[-1], (number + 1, number + 1))
    assert autosaved(tmp_path) == made[2:]
    assert (tmp_path / "notes.txt").exists()


def test_the_past_can_be_shown_before_anything_came(tmp_path: Path) -> None:
    session = watched(Paper(nodes=1, gpus=1), 0, tmp_path)
    assert moment(session, 0).state.nodes == {}


def test_what_cannot_be_kept_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    session = watched(Paper(nodes=1, gpus=1), 2, tmp_path)
    session.recordings.forget_past("the past is no longer kept: No space left on device")
    assert session.recordings.autosave() is None
    assert "No space left" in session.recordings.no_past
    left = watched(Paper(nodes=1, gpus=1), 2, tmp_path)
    left.recordings.close()
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".hangtop"]
    assert left.recordings.past is None
