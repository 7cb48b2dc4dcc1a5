"""Recordings: what was taken in comes back, damage is said and never raised, the same session judges both."""

from __future__ import annotations

import json
import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.fleet.sink import LinkChange
from hangtop.session.options import SessionOptions
from hangtop.session.recording import Recording, RecordingError
from hangtop.session.replay import events_as_json, replay_session, run_to
from hangtop.session.session import Session
from tests.support.made import gpu_row, hello, process, pulse, stack, tick


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


async def test_a_recording_replays_into_the_same_state(tmp_path: Path) -> None:
    path = tmp_path / "x.hangtop"
    live = await _record(path)
    session, feed = replay_session(path)
    run_to(session, feed, feed.recording.span[1])
    assert feed.recording.damage == ""
    before, after = live.state.nodes["node1"], session.state.nodes["node1"]
    assert [[*gpu.looks] for gpu in after.gpus.values()] == [[*gpu.looks] for gpu in before.gpus.values()]
    assert [(rank.process, [*rank.looks]) for rank in after.ranks.values()] == [
        (rank.process, [*rank.looks]) for rank in before.ranks.values()
    ]
    assert after.clock_offset == before.clock_offset
    assert (after.bad_lines, after.link) == (1, "live")
    assert list(session.state.stacks) == list(live.state.stacks)
    assert session.progress.stood_still == pytest.approx(live.progress.stood_still, abs=1.0)
    assert session.now() == live.now()


async def test_it_is_small_and_its_lines_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.hangtop"
    await _record(path, seconds=200)
    recording = Recording(path)
    lines = [json.loads(line) for line in recording.lines()]
    assert len(lines) == len(list(recording.entries())) > 1000
    assert [kind for _, _, kind, _ in lines[:2]] == ["LinkChange", "Hello"]
    assert path.stat().st_size < 20 * len(lines)


async def test_what_happened_is_told_a_line_each(tmp_path: Path) -> None:
    path = tmp_path / "x.hangtop"
    await _record(path, seconds=60)
    events = [json.loads(line) for line in events_as_json(*replay_session(path))]
    assert events[0] == {"at": 1000.0, "node": "node1", "link": "live", "why": ""}
    assert [event["at"] for event in events[1:]] == sorted(event["at"] for event in events[1:])
    assert "healthy" in [event.get("verdict") for event in events]
    assert {"started"} <= {event.get("mark") for event in events}


async def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "x.hangtop"
    path.write_text("precious")
    with pytest.raises(RecordingError, match="never overwritten"):
        await _record(path)
    assert path.read_text() == "precious"


def test_a_full_disk_ends_the_recording_and_not_the_watch(tmp_path: Path) -> None:
    now = 1000.0
    session = Session(SessionOptions(), clock=lambda: now)
    session.recordings.record(tmp_path / "x.hangtop")
    with sqlite3.connect(tmp_path / "x.hangtop") as other:
        other.execute("DROP TABLE block")  # as if nothing could be written
    for second in range(12):
        now = 1000.0 + second
        session.samples("node1", [gpu_row(0, power=float(second)), tick(now)])
    assert "cannot be written any more" in session.recordings.fault
    _, told = [*session.state.changes][-1]
    assert told.text.startswith("recording ended: ")
    assert told.kind != "hangtop", "those are hidden in what happened, and this is said nowhere else"
    assert len(session.state.nodes["node1"].gpus[0].looks) == 12


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
        b"ELF",
        b"hangtop recording 1\n" + bytes(64),
        made("CREATE TABLE other (x)"),
        made(TABLES),
        made(TABLES + ABOUT),
        made(TABLES + ABOUT + "INSERT INTO block VALUES (1, 1e300, 1e301, 0, 1, x'00')"),
        made("CREATE VIEW about AS SELECT randomblob(1e9) AS value; CREATE TABLE block (x)"),
    ],
    ids=range(8),
)
def test_what_is_no_recording_is_said_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.hangtop"
    path.write_bytes(content)
    with pytest.raises(RecordingError) as caught:
        Recording(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    import asyncio

    path = tmp_path_factory.mktemp("recorded") / "x.hangtop"
    asyncio.run(_record(path))
    return path.read_bytes()


@given(edits=st.lists(st.tuples(st.integers(0, 1 << 20), st.binary(min_size=1, max_size=9)), min_size=1, max_size=4))
def test_a_damaged_recording_never_breaks_its_reader(
    tmp_path_factory: pytest.TempPathFactory, recorded: bytes, edits: list[tuple[int, bytes]]
) -> None:
    data = bytearray(recorded)
    for place, bytes_ in edits:
        at = place % len(data)
        data[at : at + len(bytes_)] = bytes_
    path = tmp_path_factory.getbasetemp() / "damaged.hangtop"
    path.write_bytes(data)
    with suppress(RecordingError):
        recording = Recording(path)
        assert list(recording.entries()) or recording.damage
