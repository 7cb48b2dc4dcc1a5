"""What a session saw is kept when it ends: all of it, from a frame on where the oldest has gone, and never too much."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from collectors.fleet.sink import LinkChange
from collectors.samples.collectives import RecorderDump
from collectors.samples.logs import CommProgress, LogEvent
from collectors.samples.ranks import RankGone
from hangtop.session import kept
from hangtop.session.kept import Kept, NotKeptError, keep, kept_files
from hangtop.session.options import SessionOptions
from hangtop.session.replay import replay_session, run_to
from hangtop.session.session import Session
from hangtop.session.tape.recording import Recording
from tests.support.made import hello, process, pulse, tick
from tests.support.screens import NOW, PID, Paper, PaperSession, say
from tests.unit.session.test_moment import alike, played
from tests.unit.session.test_moment import kept as kept_past


def replayed(path: Path) -> Session:
    session, feed = replay_session(path)
    run_to(session, feed, feed.recording.span[1])
    assert feed.recording.damage == ""
    return session


def ended(paper: Paper, seconds: int, then: Callable[[PaperSession, int], None] = lambda session, second: None,
          limit: int = 0) -> PaperSession:  # fmt: skip
    """A session that has watched for so long."""
    session = kept_past(paper)
    assert session.keeping.past is not None
    if limit:
        session.keeping.past._limit = limit
    played(paper, session, seconds, lambda second: then(session, second))
    return session


def had(folder: Path, session: PaperSession) -> Kept:
    found = keep(session, folder)
    assert found is not None
    return found


def test_all_of_a_short_session_is_kept_and_played_again(tmp_path: Path) -> None:
    paper = Paper(nodes=2, gpus=2)

    def then(session: PaperSession, second: int) -> None:
        say(session, "node1", 0, NOW + second, f"line {second}")
        if second == 20:
            session.mark(NOW + 12, "mark 1")
            session.stacks("node1", [dump for node, dump in paper.stacks(NOW + 20) if node == "node1"])

    session = ended(paper, 50, then)
    found = had(tmp_path / "new" / "folder", session)
    assert found.seconds == 50
    again = replayed(found.path)
    for name, node in session.state.nodes.items():
        alike(node, again.state.nodes[name])
    assert [change for change in again.state.changes if change.kind == "mark"] == [
        change for change in session.state.changes if change.kind == "mark"
    ]
    assert [(change.at, change.text) for change in again.state.changes if change.kind == "mark"] == [
        (NOW + 12, "mark 1")
    ]
    assert [*again.state.stacks] == [*session.state.stacks]
    assert len(again.state.stacks) == 2
    assert [*again.state.log_lines] == [*session.state.log_lines]
    assert again.now() == session.now()


def test_nodes_that_a_scheduler_named_are_told_by_their_names(tmp_path: Path) -> None:
    session = ended(Paper(nodes=2, gpus=2), 5)
    session.options = replace(session.options, targets=(), slurm="17")
    found = had(tmp_path, session)
    assert replayed(found.path).options.targets == ("node1", "node2")
    assert found.path.name.endswith("-node1.hangtop")
    session.options = replace(session.options, slurm=None)
    assert had(tmp_path, session).path.name.endswith("-here.hangtop"), "this machine"
    session.keeping.close()


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    found = had(tmp_path / "folder", ended(Paper(nodes=1, gpus=1), 3))
    assert found.path.stat().st_mode & 0o777 == 0o600
    assert found.path.parent.stat().st_mode & 0o777 == 0o700


def test_tokens_are_not_in_it(tmp_path: Path) -> None:
    token = "hf_" + "Ab3" * 12

    def then(session: PaperSession, second: int) -> None:
        say(session, "node1", 0, NOW + second, f"token {token}")
        session.mark(NOW, token)

    session = ended(Paper(nodes=1, gpus=1), 3, then)
    again = replayed(had(tmp_path, session).path)
    told = f"{[*again.state.log_lines]} {[*again.state.changes]}"
    assert "token" in told
    assert token not in told


SAME = ("link", "sources", "faults", "host", "load", "disks", "locations", "log_files", "speeds", "gpu_processes",
        "gpu_fault", "fabric_services", "port_uses")  # fmt: skip


def test_where_the_oldest_has_gone_it_begins_with_what_was_known(tmp_path: Path) -> None:
    paper = Paper(nodes=3, gpus=4)
    event = LogEvent("nccl.error", NOW + 1, 3, "node1", PID + 3, "/logs/rank3.err", 7, "NCCL WARN x", {})
    dump = RecorderDump(2, "2.10", "/tmp/x2", NOW, {"0": [0, 1]}, [], [], NOW + 1)

    def then(session: PaperSession, second: int) -> None:
        if second == 1:
            progress = CommProgress("c", 0, 4, 0, "node1", PID, "AllReduce", 12, "f", 9, 9, NOW + 1, "s", 1)
            session.samples("node1", [event, progress], 0)
            session.samples("node2", [RankGone(PID + 5, 5, NOW + 1)], 0)
            session.witness(dump)
            session.mark(NOW + 1, "mark 1")
        if second == 2:
            session.link(LinkChange("node3", "lost", "cut", NOW + 2))

    session = ended(paper, 500, then, limit=160_000)
    assert session.keeping.past is not None
    assert session.keeping.past.first > NOW + 60
    found = had(tmp_path, session)
    assert found.seconds == pytest.approx(NOW + 499 - session.keeping.past.first)
    again = replayed(found.path)
    for name, node in session.state.nodes.items():
        other = again.state.nodes[name]
        for part in SAME:
            assert getattr(other, part) == getattr(node, part), part
        assert {gpu.index: (gpu.facts, gpu.looks.newest) for gpu in other.gpus.values()} == {
            gpu.index: (gpu.facts, gpu.looks.newest) for gpu in node.gpus.values()
        }
        assert {pid: (rank.process, rank.gone_at, rank.looks.newest) for pid, rank in other.ranks.items()} == {
            pid: (rank.process, rank.gone_at, rank.looks.newest) for pid, rank in node.ranks.items()
        }
        assert {port: state.facts for port, state in other.ports.items()} == {
            port: state.facts for port, state in node.ports.items()
        }
        assert [*other.interfaces] == [*node.interfaces]
    assert [known for _, known in again.state.events] == [event]
    assert again.state.progress == session.state.progress
    assert again.state.recorders == {2: dump}
    assert [change.at for change in again.state.changes if change.kind == "mark"] == [NOW + 1]


@pytest.mark.parametrize("ahead", [0.0, 3000.0, -70.0])
def test_clocks_that_are_wrong_stay_as_wrong(tmp_path: Path, ahead: float) -> None:
    now = 1000.0
    session = Session(SessionOptions(targets=("node1",)), clock=lambda: now)
    session.keeping.keep_past()
    assert session.keeping.past is not None
    session.keeping.past._limit = 2000
    session.link(LinkChange("node1", "live", "", now))
    first: list[NamedTuple] = [
        hello(now + ahead),
        process(0, started=900.0 + ahead),
        process(-1, 77, started=901.0 + ahead),
    ]
    session.samples("node1", [*first, tick(now + ahead)], 1)
    for second in range(1, 200):
        now = 1000.0 + second
        moved = pulse(1000, voluntary_switches=second, idle_since=now + ahead)
        session.samples("node1", [moved, tick(now + ahead, second)], 1)
        session.tick()
    assert session.keeping.past.first > 1020.0
    found = keep(session, tmp_path)
    assert found is not None
    again = replayed(found.path).state.nodes["node1"]
    then = session.state.nodes["node1"]
    assert {pid: rank.process for pid, rank in again.ranks.items()} == {
        pid: rank.process for pid, rank in then.ranks.items()
    }
    assert again.ranks[1000].process.started == 900.0
    assert again.ranks[1000].looks.newest == then.ranks[1000].looks.newest
    assert again.clock_offset == then.clock_offset == ahead


def test_the_oldest_recordings_go_and_only_they(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    session = ended(Paper(nodes=1, gpus=1), 5)
    monkeypatch.setattr(kept, "MOST_FILES", 3)
    made = []
    for second in range(5):
        session.clock.now = NOW + 100 + second
        made.append(had(tmp_path, session).path)
    assert kept_files(tmp_path) == made[2:]
    monkeypatch.setattr(kept, "MOST_BYTES", 2 * made[4].stat().st_size + 10)
    session.clock.now += 10
    newest = had(tmp_path, session).path
    assert kept_files(tmp_path) == [made[4], newest]
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_two_that_end_in_one_second_do_not_take_each_other_s_place(tmp_path: Path) -> None:
    session = ended(Paper(nodes=1, gpus=1), 5)
    assert had(tmp_path, session).path != had(tmp_path, session).path
    assert len(kept_files(tmp_path)) == 2


def free(bytes_left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=bytes_left)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)


def test_of_a_disk_that_is_nearly_full_it_takes_little_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = ended(Paper(nodes=3, gpus=4), 500, limit=3_000_000)
    whole = had(tmp_path, session)
    free(int(whole.bytes * 0.6 / kept.SPARE), monkeypatch)
    part = had(tmp_path, session)
    assert 0 < part.bytes < whole.bytes * 0.7
    assert 0 < part.seconds < whole.seconds
    assert replayed(part.path).now() == session.now()
    free(1000, monkeypatch)
    with pytest.raises(NotKeptError, match="too little room"):
        keep(session, tmp_path)
    assert kept_files(tmp_path) == sorted([whole.path, part.path])


def test_a_disk_that_fills_up_meanwhile_is_said_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = ended(Paper(nodes=1, gpus=1), 5)

    def full(fd: int, count: int, offset: int) -> bytes:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pread", full)
    with pytest.raises(NotKeptError, match="No space left on device"):
        keep(session, tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_what_saw_nothing_keeps_nothing_and_what_could_not_be_kept_says_why(tmp_path: Path) -> None:
    assert keep(kept_past(Paper(nodes=1)), tmp_path) is None
    session = ended(Paper(nodes=1, gpus=1), 2)
    session.keeping.forget_past("the past is no longer kept: No space left on device")
    with pytest.raises(NotKeptError, match="no longer kept: No space left"):
        keep(session, tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_what_another_left_half_written_goes_when_it_is_old(tmp_path: Path) -> None:
    old, new = tmp_path / "a.1.part", tmp_path / "b.2.part"
    for path in (old, new):
        path.write_bytes(b"x")
    os.utime(old, (1, 1))
    path = had(tmp_path, ended(Paper(nodes=1, gpus=1), 2)).path
    assert sorted(tmp_path.iterdir()) == sorted([new, path])
    assert Recording(path).about.targets == ["node[1-4]"]
