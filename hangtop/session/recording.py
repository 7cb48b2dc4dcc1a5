"""Recordings: everything that a session took in, with its times, in a file that can be replayed and sought in.

A recording is an SQLite file. Each row of ``block`` holds some seconds, as JSON lines packed by zstd: one line an
entry, ``[at, node, kind, value]`` (see :mod:`hangtop.session.entries`). A row with ``snapshot`` set repeats the newest
entry of each thing that was known at one moment. A moment of the past is the last snapshot before it, and what was
taken in between. The past of a live session is such a file, whose oldest rows go.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from collectors.fleet import bounds
from collectors.samples.registry import SAMPLES
from hangtop.session.entries import OTHERS, About, Entry, Newest, Payload

BLOCK_BYTES, BLOCK_SECONDS = 256 * 1024, 5.0
"""Bytes of lines, or seconds, after which a block is written: what a crash of hangtop may cost."""
SNAPSHOT_SECONDS = 60.0
"""Seconds between two snapshots."""
LARGEST = 64 << 20
"""Bytes of a block's lines; a block that claims more is damaged."""
SCHEMA = (
    "PRAGMA page_size=1024; PRAGMA synchronous=OFF; CREATE TABLE about (value TEXT); CREATE TABLE block "
    "(id INTEGER PRIMARY KEY, first REAL, last REAL, snapshot INTEGER, size INTEGER, body BLOB);"
)


class RecordingError(Exception):
    """The file cannot be written or read; the text names it and says why."""


for _kind in (*SAMPLES, *OTHERS[1:]):
    bounds.bind(_kind)  # a recording may come from anybody
_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    kind.__name__: msgspec.json.Decoder(kind) for kind in (*SAMPLES, *OTHERS)
}
_decode_line = msgspec.json.Decoder(tuple[float, str, str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class Recorder:
    """Writes a recording; with a ``limit`` of bytes the oldest blocks give way. Raises :class:`RecordingError`."""

    def __init__(self, path: Path, about: About, began: float, limit: int | None = None) -> None:
        """Create the file, for its owner alone; one that is there is never overwritten."""
        self.path = path
        self.bytes_written = 0
        self.first = began
        """The oldest moment that can be shown."""
        self._limit = limit
        self._lines: list[bytes] = []
        self._size = 0
        self._began = self._last = self._snapshot_at = began
        self._newest = Newest()
        self._pack = zstandard.ZstdCompressor(level=3).compress
        try:
            path.touch(mode=0o600, exist_ok=False)
        except FileExistsError:
            raise RecordingError(f"{path}: is there already; a recording is never overwritten") from None
        except OSError as error:
            raise RecordingError(f"{path}: cannot be written: {error.strerror}") from None
        self._file = sqlite3.connect(path, isolation_level=None)
        try:
            self._file.executescript(SCHEMA)
        except sqlite3.Error as error:
            raise RecordingError(f"{error}: {path} cannot be written") from None
        self._rows("INSERT INTO about VALUES (?)", _encode(about).decode())
        self._write([], began, began)

    def add(self, at: float, node: str, payloads: Iterable[Payload]) -> None:
        """Add what came together."""
        if not self._lines:
            self._began = at
        entries = [Entry(at, node, payload) for payload in payloads]
        lines = [_line(entry) for entry in entries]
        self._lines += lines
        self._size += sum(map(len, lines))
        self._newest.take(entries)
        self._last = max(self._began, at)  # a wall clock may be set back; a block's times never run backwards
        if self._size >= BLOCK_BYTES or self._last - self._began >= BLOCK_SECONDS:
            self.flush()
        if at - self._snapshot_at >= SNAPSHOT_SECONDS:
            self._snapshot(at)

    def flush(self) -> None:
        """Write what is left."""
        if self._lines:
            lines, self._lines, self._size = self._lines, [], 0
            self._write(lines, self._began, self._last)

    def _snapshot(self, at: float) -> None:
        """Write what is known; with a limit, make room."""
        self.flush()
        self._snapshot_at = at
        self._write([_line(entry) for entry in self._newest.snapshot(at)], at, at, snapshot=True)
        if self._limit is None:
            return
        held = "SELECT id, sum(length(body)) OVER (ORDER BY id DESC) FROM block ORDER BY id DESC"
        for number in (number for number, bytes_held in self._rows(held) if bytes_held > self._limit):
            self._rows("DELETE FROM block WHERE id = ?", number)
        if not self._rows("SELECT id FROM block WHERE id = 1"):
            # what has no snapshot before it cannot be shown
            self._rows("DELETE FROM block WHERE id < (SELECT min(id) FROM block WHERE snapshot)")
            self.first = self._rows("SELECT first FROM block ORDER BY id LIMIT 1")[0][0]

    def opened(self) -> Recording:
        """The recording as far as it was written, to be read."""
        self.flush()
        if not self.bytes_written:
            self._write([], self._began, self._last)  # nothing came yet, and that can be shown
        return Recording(self.path)

    def close(self, at: float) -> None:
        """Write what is left; end the file, which was written until ``at``."""
        try:
            self.flush()
            self._write([], at, at)
        finally:
            self._file.close()

    def discard(self) -> None:
        """End the file, and remove it."""
        self._file.close()
        self.path.unlink(missing_ok=True)

    def _write(self, lines: Sequence[bytes], first: float, last: float, *, snapshot: bool = False) -> None:
        data = b"\n".join(lines)
        body = self._pack(data)
        row = (first, last, snapshot, len(data), body)
        self._rows("INSERT INTO block (first, last, snapshot, size, body) VALUES (?, ?, ?, ?, ?)", *row)
        self.bytes_written += len(body)

    def _rows(self, statement: str, *values: object) -> list[Any]:
        try:
            return self._file.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            # Why comes first: a panel that is narrow shows the beginning.
            raise RecordingError(f"{error}: {self.path} cannot be written any more") from None


class Recording:
    """A recording, open for reading. Nothing of the file is trusted."""

    def __init__(self, path: Path) -> None:
        """Read what it is about. Raises :class:`RecordingError` for anything that is no recording."""
        self.path = path
        self.damage = ""
        """Why its end cannot be read; empty for a whole one."""
        try:
            with path.open("rb") as file:
                if not file.read(16).startswith(b"SQLite format 3\0"):
                    raise RecordingError(f"{path}: is no hangtop recording (of this version)")
            with closing(self._connected()) as connected:
                about = connected.execute("SELECT value FROM about").fetchone()
                first, last = connected.execute("SELECT min(first), max(last) FROM block").fetchone()
            self.about = msgspec.json.decode(about[0], type=About)
            self.span = float(first), float(last)
            """Times of its first and last entry."""
        except OSError as error:
            raise RecordingError(f"{path}: cannot be read: {error.strerror}") from None
        except (sqlite3.Error, msgspec.DecodeError, TypeError, ValueError) as error:
            raise RecordingError(f"{path}: is damaged, or no hangtop recording: {error}") from None
        self.first = self.span[0]
        """The oldest moment that can be shown."""
        if not bounds.FIRST_MOMENT <= self.first <= self.span[1] <= bounds.LAST_MOMENT:
            raise RecordingError(f"{path}: is damaged: it holds times that no calendar knows")

    def opened(self) -> Recording:
        """This one: as :meth:`Recorder.opened`."""
        return self

    def entries(self, until: float = inf, *, since: float = -inf) -> Iterator[Entry]:
        """All that was taken in up to a time, in order; of what came before ``since`` the newest snapshot, if any.

        Ends at the first damaged block and says so in ``damage``. Kinds that are recorded no more are passed over.
        """
        blocks = (
            "WITH start AS (SELECT coalesce(max(id) FILTER (WHERE snapshot AND last <= ?1), min(id)) AS id FROM block) "
            "SELECT block.id FROM block, start WHERE block.id = start.id "
            "OR (block.id > start.id AND NOT snapshot AND first <= ?2) ORDER BY block.id"
        )
        try:
            for line in self._lines(blocks, since, until):
                entry = _entry(line)
                if entry is not None and entry.at <= until:
                    yield entry
        except (msgspec.DecodeError, ValueError) as error:
            self.damage = f"damaged: {error}"

    def lines(self) -> Iterator[bytes]:
        """All lines as they stand in the file, without snapshots."""
        return self._lines("SELECT id FROM block WHERE NOT snapshot ORDER BY id")

    def _lines(self, blocks: str, *values: float) -> Iterator[bytes]:
        """The lines of the blocks that a statement chooses, block by block."""
        try:
            with closing(self._connected()) as connected:
                for (number,) in connected.execute(blocks, values).fetchall():
                    query = "SELECT size, body FROM block WHERE id = ? AND typeof(body) = 'blob' AND length(body) < ?"
                    size, body = connected.execute(query, (number, LARGEST)).fetchone() or (LARGEST + 1, b"")
                    yield from filter(None, _unpacked(body, size).split(b"\n"))
        except (sqlite3.Error, zstandard.ZstdError, ValueError, TypeError) as error:
            self.damage = f"damaged, or cut off: {error}"

    def _connected(self) -> sqlite3.Connection:
        connected = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)
        connected.execute("PRAGMA trusted_schema=OFF")
        tables = connected.execute("SELECT type FROM sqlite_master WHERE name IN ('about', 'block')").fetchall()
        if tables != [("table",), ("table",)]:
            connected.close()
            raise sqlite3.DatabaseError("it has not the tables of one")
        return connected


def _unpacked(body: bytes, size: int) -> bytes:
    """The lines of a block. Raises :class:`ValueError` and :class:`zstandard.ZstdError` for a damaged one."""
    if not 0 <= size <= LARGEST or zstandard.frame_content_size(body) != size:
        raise ValueError("a block's size is not what it says")
    return zstandard.ZstdDecompressor().decompress(body, max_output_size=size)


def _entry(line: bytes) -> Entry | None:
    """One line decoded; None for a kind that is recorded no more. Raises :class:`ValueError` for a damaged one."""
    at, node, kind, value = _decode_line(line)
    if not bounds.FIRST_MOMENT <= at <= bounds.LAST_MOMENT:
        raise ValueError(f"{at} is no time")
    return Entry(at, node, _DECODERS[kind].decode(value)) if kind in _DECODERS else None


def _line(entry: Entry) -> bytes:
    """An entry as JSON."""
    return _encode((entry.at, entry.node, type(entry.payload).__name__, entry.payload))
