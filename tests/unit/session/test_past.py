"""The past: recordings replay into the same session, any moment is a session, damage is said and never raised."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from sqlite3 import connect
from threading import Event
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from collectors.fleet.sink import LinkChange
from hangtop.cli.replay import command as replay_command
from hangtop.diagnosis.node import Node
from hangtop.session import recorder, recordings
from hangtop.session.options import SessionOptions
from hangtop.session.recorder import SNAPSHOT_SECONDS
from hangtop.session.recording import Recording, RecordingError
from hangtop.session.recordings import pasts
from hangtop.session.replay import SeekedSession, played
from hangtop.session.session import Session
from tests.support.made import gpu_row, hello, process, pulse, stack, tick
from tests.support.screens import NOW, Paper, PaperSession, hung, say


async def _record(path: Path, seconds: int = 40) -> Session:
    """A session of four ranks that work for ten seconds and then stand still; a look at one of them at the end."""
    now = 1000.0
    session = Session(SessionOptions(targets=("node1",), patience=20.0), clock=lambda: now)
    session.recordings.record(path)
    session.link(LinkChange("node1", "live", "", now))
    session.samples("node1", [hello(now + 5.0), *(process(rank) for rank in range(4))])
    session.bad_line("node1", "[", "cut off")
    for second in range(seconds):
        now += 1.0
        worked = min(second, 10)
        pulses = [pulse(1000 + rank, voluntary_switches=50 * worked, cpu_user=0.4 * worked) for rank in range(4)]
        session.samples("node1", [*pulses, gpu_row(0, power=float(worked)), tick(now + 5.0, second)])
        session.tick()
    session.stacks("node1", [stack(1002, "read_shard", at=now)])
    await session.close()
    return session


def assert_alike(one: Node, other: Node, looks: int) -> None:
    """Two nodes in the same state, with so many of the last looks at their GPUs and ranks."""
    for name in ("link", "sources", "faults", "host", "readings", "log_files", "gpu_processes", "clock_offset",
                 "gpu_fault", "bad_lines"):  # fmt: skip
        assert getattr(one, name) == getattr(other, name), name
    assert {name: (port.facts, port.counters, port.first) for name, port in one.ports.items()} == {
        name: (port.facts, port.counters, port.first) for name, port in other.ports.items()
    }
    for mine, theirs in zip(one.gpus.values(), other.gpus.values(), strict=True):
        assert (mine.facts, list(mine.samples)[-looks:]) == (theirs.facts, list(theirs.samples)[-looks:])
    for pid, rank in one.ranks.items():
        assert (rank.process, rank.gone_at) == (other.ranks[pid].process, other.ranks[pid].gone_at)
        assert list(rank.pulses)[-looks:] == list(other.ranks[pid].pulses)[-looks:]


async def test_a_recording_is_small_and_replays_into_the_same_state(tmp_path: Path) -> None:
    path = tmp_path / "x.hangtop"
    live = await _record(path, seconds=200)
    session = played(path)
    assert_alike(live.state.nodes["node1"], session.state.nodes["node1"], 30)
    assert list(session.state.stacks) == list(live.state.stacks)
    assert session.progress.stood_still == pytest.approx(live.progress.stood_still, abs=1.0)
    assert session.now() == live.now()
    recording = Recording(path)
    lines = [json.loads(line) for line in recording.lines()]
    assert len(lines) == len(list(recording.entries())) > 1000
    assert [kind for _, _, kind, _ in lines[:2]] == ["LinkChange", "Hello"]
    assert path.stat().st_size < 20 * len(lines)


async def test_what_happened_in_a_recording_is_told_for_scripts(tmp_path: Path) -> None:
    path = tmp_path / "x.hangtop"
    await _record(path, seconds=90)
    done = CliRunner().invoke(replay_command, ["--events", str(path)])
    told = [json.loads(line) for line in done.output.splitlines()]
    assert told[0] == {"at": 1000.0, "node": "node1", "text": "rank 0 started", "kind": "started"}
    assert {one["kind"] for one in told} == {"started", "unknown", "healthy", "hung"}
    assert sorted(told, key=lambda one: one["at"]) == told


async def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "x.hangtop"
    path.write_text("precious")
    with pytest.raises(RecordingError, match="File exists"):
        await _record(path)
    assert path.read_text() == "precious"


@pytest.mark.parametrize("named", [True, False])
async def test_a_full_disk_ends_the_recording_and_not_the_watch(tmp_path: Path, named: bool) -> None:
    now = 1000.0
    session = Session(SessionOptions(), clock=lambda: now)
    if named:
        session.recordings.record(tmp_path / "x.hangtop")
    else:
        session.recordings.keep_past(tmp_path)
    past = await session.recordings.opened()
    assert past is not None
    file = past.path
    with sqlite3.connect(file) as other:
        other.execute("DROP TABLE block")  # as if nothing could be written
    for second in range(12):
        now = 1000.0 + second
        session.samples("node1", [gpu_row(0, power=float(second)), tick(now)])
        if second == 10:
            with suppress(RecordingError):
                await session.recordings.opened()  # waits until the file was tried
    assert "cannot be written any more" in session.recordings.fault
    assert session.recordings.past is None
    assert file.exists() == named
    _, told = [*session.state.changes][-1]
    assert told.text.startswith("recording ended: " if named else "the past is no longer kept: ")
    assert len(session.state.nodes["node1"].gpus[0].samples) == 12


class SilentFile:
    """An SQLite connection that does nothing before ``answers`` is set, like a file on NFS without its server."""

    answers: Event

    def __init__(self, path: Path, **options: Any) -> None:
        self._file = connect(path, **options)

    def __getattr__(self, name: str) -> Any:
        self.answers.wait()
        return getattr(self._file, name)


@pytest.mark.parametrize(("most", "lost"), [(100, 0), (3, 109)])
async def test_a_file_that_does_not_answer_stops_the_recording_and_not_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, lost: int
) -> None:
    SilentFile.answers = Event()
    monkeypatch.setattr(sqlite3, "connect", SilentFile)
    monkeypatch.setattr(recorder, "MOST_BLOCKS", most)
    now = 1000.0
    session = Session(SessionOptions(), clock=lambda: now)
    session.recordings.record(tmp_path / "x.hangtop")
    for second in range(48):
        now = 1000.0 + second
        session.samples("node1", [gpu_row(0, power=float(second)), gpu_row(1), tick(now)])
        if second == 30:
            session.samples("node1", [process(0)])
    assert len(session.state.nodes["node1"].gpus[0].samples) == 48
    SilentFile.answers.set()
    monkeypatch.undo()
    await session.recordings.opened()
    now = 1100.0
    session.samples("node1", [tick(now)])
    session.recordings.close()
    assert session.recordings.lost == lost
    assert any("lags" in change.text for _, change in session.state.changes) == (lost > 0)
    again = played(tmp_path / "x.hangtop").state.nodes["node1"]
    assert_alike(again, session.state.nodes["node1"], 1 if lost else 48)
    assert len(list(Recording(tmp_path / "x.hangtop").entries())) == (40 if lost else 146)


# --- any moment --------------------------------------------------------------------------------------------------


def watched(
    paper: Paper, seconds: int, folder: Path, then: Callable[[PaperSession, int], None] = lambda session, second: None
) -> PaperSession:
    """A session that has watched for so long, and kept its past in a folder."""
    paper.clock.now = NOW - 1
    session = paper.session(ticks=0)
    session.recordings.keep_past(folder)
    for second in range(seconds):
        paper.clock.now = NOW + second
        for index in range(paper.nodes):
            paper.feed(session, index, second)
        then(session, second)
        session.tick()
    return session


async def moment(session: PaperSession, second: float) -> SeekedSession:
    past = await session.recordings.opened()
    assert past is not None
    return SeekedSession(session.options, past, NOW + second)


@pytest.mark.parametrize("second", [3, int(SNAPSHOT_SECONDS), 2 * int(SNAPSHOT_SECONDS) + 5])
async def test_a_moment_is_the_session_that_had_seen_no_more(tmp_path: Path, second: int) -> None:
    session = watched(Paper(nodes=3, gpus=2), 160, tmp_path / "long")
    then = watched(Paper(nodes=3, gpus=2), second + 1, tmp_path)
    found = await moment(session, second)
    assert found.now() == then.now() == NOW + second
    assert list(found.state.nodes) == list(then.state.nodes)
    for name, node in found.state.nodes.items():
        assert_alike(node, then.state.nodes[name], 10)


async def test_the_past_can_be_shown_before_anything_came(tmp_path: Path) -> None:
    assert (await moment(watched(Paper(nodes=1, gpus=1), 0, tmp_path), 0)).state.nodes == {}


async def test_what_the_session_keeps_itself_is_shown_as_far_as_it_was_known(tmp_path: Path) -> None:
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
        found = await moment(session, second)
        found.show(session)
        after = second > 30
        assert [lines.lines for _, lines in found.state.log_lines] == [[f"line {each}"] for each in range(second + 1)]
        assert len(found.state.stacks) == (4 if after else 0)
        assert (found.verdict is not None) == after
        assert any(change.kind == "lost" for _, change in found.state.changes) == after
        assert found.state.nodes["node2"].link == ("lost" if after else "live")


# --- what is kept of a session that nobody records ---------------------------------------------------------------


def kept(session: Session) -> Path:
    session.recordings.close()
    assert session.recordings.kept is not None
    return session.recordings.kept


@pytest.mark.parametrize("ahead", [0.0, 3000.0])
async def test_of_a_long_past_the_end_is_kept_and_clocks_that_are_wrong_stay_as_wrong(
    tmp_path: Path, ahead: float
) -> None:
    now = 1000.0
    session = Session(SessionOptions(targets=("node1",)), clock=lambda: now)
    session.recordings.keep_past(tmp_path, limit=2000)
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
    past = await session.recordings.opened()
    assert past is not None
    assert past.first > 1020.0
    again, then = played(kept(session)).state.nodes["node1"], session.state.nodes["node1"]
    assert_alike(again, then, 10)
    assert again.ranks[1000].process.started == 900.0
    assert again.clock_offset == ahead


def test_the_oldest_pasts_go_and_only_they(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    monkeypatch.setattr(recordings, "KEPT", 3)
    made = []
    for number in range(5):
        session = Session(SessionOptions(targets=("node1",)), clock=lambda: NOW + number)  # noqa: B023 - of this turn
        session.recordings.keep_past(folder)
        session.samples("node1", [tick(NOW)])
        made.append(kept(session))
        (folder / "notes.txt").write_text("mine")
        os.utime(made[-1], (number + 1, number + 1))
    assert pasts(folder) == made[2:]
    assert (folder / "notes.txt").exists()
    assert (made[-1].stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)


def test_of_a_session_in_which_no_node_spoke_nothing_is_left(tmp_path: Path) -> None:
    session = Session(SessionOptions(targets=("node1",)), clock=lambda: NOW)
    session.recordings.keep_past(tmp_path)
    session.link(LinkChange("node1", "lost", "no route to host", NOW))
    session.recordings.close()
    assert (session.recordings.kept, list(tmp_path.iterdir())) == (None, [])


# --- files that are none, or damaged -----------------------------------------------------------------------------


def made(script: str) -> bytes:
    with sqlite3.connect(":memory:") as file:
        file.executescript(script)
        return file.serialize()


TABLES = (
    "CREATE TABLE about (value TEXT); CREATE TABLE block (id INTEGER PRIMARY KEY, first, last, snapshot, size, body);"
)
ABOUT = """INSERT INTO about VALUES ('["1", [], 1.0, 60.0, ""]');"""


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hangtop recording 1\n" + bytes(64),
        made("CREATE TABLE other (x)"),
        made(TABLES),
        made(TABLES + ABOUT),
        made(TABLES + ABOUT + "INSERT INTO block VALUES (1, 1e300, 1e301, 0, 1, x'00')"),
        made("CREATE VIEW about AS SELECT randomblob(1e9) AS value; CREATE TABLE block (x)"),
    ],
    ids=range(7),
)
def test_what_is_no_recording_is_said_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.hangtop"
    path.write_bytes(content)
    with pytest.raises(RecordingError) as caught:
        Recording(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
