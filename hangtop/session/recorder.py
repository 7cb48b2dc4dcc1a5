"""Writes recordings (:mod:`.recording`), in a thread of their own."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any, NamedTuple

import msgspec

from collectors.samples.registry import IDENTITY
from hangtop.session.recording import About, Entry, Payload, RecordingError

BLOCK_BYTES, BLOCK_SECONDS = 256 * 1024, 5.0
"""Bytes of lines, or seconds, after which a block is written: what a crash of hangtop may lose."""
SNAPSHOT_SECONDS = 60.0
"""Seconds between two snapshots."""
MOST_BLOCKS = 128
"""Most blocks that wait for a slow file system: ten minutes of a small job. Further entries are lost."""
SCHEMA = (
    "PRAGMA page_size=1024; PRAGMA synchronous=OFF; CREATE TABLE about (value TEXT); CREATE TABLE block "
    "(id INTEGER PRIMARY KEY, first REAL, last REAL, snapshot INTEGER, body BLOB);"
)
_encode = msgspec.json.Encoder().encode

_KEYS = {
    **{kind.__name__: positions for kind, positions in IDENTITY.items()},
    **dict.fromkeys(("Hello", "Tick", "LinkChange"), ()),
    **dict.fromkeys(("ProcessGone", "RecorderDump"), (0,)),
}
"""Kind → positions of the fields that identify a thing; other kinds are events, which no snapshot repeats."""
_COUNTERS = ("Counters", "NvlinkCounters")
"""Kinds whose first sample is kept too: errors show by the growth of a counter."""
MOST = 8192
"""Most things of one node; the oldest are dropped."""


class Block(NamedTuple):
    """Some seconds of entries, as lines."""

    first: float
    last: float
    snapshot: bool
    body: bytes


class Newest:
    """The newest entry of each thing on each node: played in order, the entries restore the present state."""

    def __init__(self) -> None:
        self._of: dict[str, dict[tuple[object, ...], Entry]] = {}

    def take(self, entry: Entry) -> None:
        """Add an entry."""
        payload: Any = entry.payload
        kind, known = type(payload).__name__, self._of.setdefault(entry.node, {})
        if kind == "ProcessGone":
            known.pop(("Helper", payload.pid), None)
            known.pop(("IdleLauncher", payload.pid), None)
        if kind not in _KEYS or (kind == "ProcessGone" and ("RankProcess", payload.pid) not in known):
            return
        key = (kind, *[payload[position] for position in _KEYS[kind]])
        before: Any = known.pop(key, None)
        if kind in _COUNTERS:
            known.setdefault((*key, "first"), entry)
        if kind == "Counters" and before is not None:  # unchanged counters are not sent
            entry = entry._replace(payload=payload._replace(values=before.payload.values | payload.values))
        known[key] = entry
        if len(known) > MOST:
            del known[next(iter(known))]

    def lines(self) -> list[bytes]:
        """All entries as lines, by time."""
        entries = (entry for known in self._of.values() for entry in known.values())
        return [*map(_line, sorted(entries, key=lambda entry: entry.at))]


class Recorder:
    """Writes a recording, in a thread of its own: a file system that does not answer must not stop the event loop.

    Its methods are for the event loop; once writing has failed they raise :class:`RecordingError`.
    """

    def __init__(
        self, path: Path, about: About, began: float, *, keep: bool, limit: float, prepare: Callable[[], object]
    ) -> None:
        """Begin to write the empty file that ``prepare`` makes; beyond ``limit`` bytes its oldest blocks go."""
        self.path = path
        self.keep = keep
        """The file stays when it is closed, or cannot be written any more."""
        self.first = began
        """The oldest moment that can be shown."""
        self.lost = 0
        """Entries that are not in the file, because it took too long to write."""
        self.lags = False
        """Entries are being lost; the next block repeats the newest entry of each thing."""
        self._lines: list[bytes] = []
        self._size = 0
        self._began = self._last = self._snapshot_at = began
        self._newest = Newest()
        self._error: RecordingError | None = None
        self._blocks: Queue[Block | None] = Queue()
        self._give([], began, began)
        self._thread = Thread(target=self._run, args=(about, limit, prepare), name="hangtop recorder", daemon=True)
        self._thread.start()

    def add(self, at: float, node: str, payloads: Iterable[Payload]) -> None:
        """Add input that came together."""
        if not self._lines:
            self._began = at
        for payload in payloads:
            entry = Entry(at, node, payload)
            line = _line(entry)
            self._lines.append(line)
            self._size += len(line)
            self._newest.take(entry)
        self._last = max(self._began, at)  # a wall clock may be set back; a block's times never run backwards
        if self._error or self._size >= BLOCK_BYTES or self._last - self._began >= BLOCK_SECONDS:
            self.flush()
        if at - self._snapshot_at >= SNAPSHOT_SECONDS:
            self.flush()
            if not self.lags:
                self._give(self._newest.lines(), at, at, snapshot=True)
                self._snapshot_at = at

    def flush(self) -> int:
        """Give the pending lines to the thread, unless it lags; returns how many blocks it has yet to write."""
        if self._error is not None:
            raise self._error
        if self._lines:
            lines, self._lines, self._size = self._lines, [], 0
            lagged, self.lags = self.lags, self._blocks.qsize() >= MOST_BLOCKS
            if self.lags:
                self.lost += len(lines)
            else:
                self._give(self._newest.lines() if lagged else lines, self._began, self._last)
        return self._blocks.unfinished_tasks

    def close(self, at: float, seconds: float = 0.0) -> None:
        """Have the pending lines written and the file closed; waits for so many seconds. ``at`` is the end."""
        try:
            self.flush()
            self._give([], at, at)
        finally:
            self._blocks.put(None)
        self._thread.join(seconds)
        if self._error is not None:
            raise self._error
        if seconds and self._thread.is_alive():
            raise RecordingError(f"{self.path}: its end was not written within {seconds:g} s")

    def _give(self, lines: list[bytes], first: float, last: float, *, snapshot: bool = False) -> None:
        self._blocks.put(Block(first, last, snapshot, b"\n".join(lines)))

    # --- in the thread -----------------------------------------------------------------------------------------------

    def _run(self, about: About, limit: float, prepare: Callable[[], object]) -> None:
        try:
            try:
                prepare()
                with closing(sqlite3.connect(self.path, isolation_level=None)) as file:
                    self._write(file, about, limit)
            finally:
                if not self.keep:
                    self.path.unlink(missing_ok=True)
        except (OSError, sqlite3.Error) as error:
            # The reason comes first, because a narrow panel shows only the beginning.
            self._error = RecordingError(f"{error}: {self.path} cannot be written any more")

    def _write(self, file: sqlite3.Connection, about: About, limit: float) -> None:
        """Write all blocks up to the end mark, None."""
        file.executescript(SCHEMA)
        file.execute("INSERT INTO about VALUES (?)", (_encode(about).decode(),))
        for block in iter(self._blocks.get, None):
            row = block._replace(body=zlib.compress(block.body))
            file.execute("INSERT INTO block (first, last, snapshot, body) VALUES (?, ?, ?, ?)", row)
            if block.snapshot:
                self._make_room(file, limit)
            self._blocks.task_done()

    def _make_room(self, file: sqlite3.Connection, limit: float) -> None:
        """Delete all rows before the second snapshot, repeatedly, until the rest is within the limit."""
        size = "SELECT sum(length(body)) FROM block"
        second = "SELECT id, last FROM block WHERE snapshot AND id > (SELECT min(id) FROM block) ORDER BY id LIMIT 1"
        while file.execute(size).fetchone()[0] > limit and (row := file.execute(second).fetchone()):
            file.execute("DELETE FROM block WHERE id < ?", row[:1])
            self.first = row[1]


def _line(entry: Entry) -> bytes:
    """An entry as JSON."""
    return _encode((entry.at, entry.node, type(entry.payload).__name__, entry.payload))
