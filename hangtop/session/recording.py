"""Recordings: all input of a session, with its times, in a file for replay and seeking.

A recording is an SQLite file. Each row of ``block`` holds some seconds as JSON lines compressed by zlib: one line per
entry, ``[at, node, kind, value]``. A row with ``snapshot`` set repeats the newest entry of each thing known at one
moment. To restore a moment, a reader plays the last snapshot before it and all entries since. The past of a live
session is such a file, whose oldest rows are deleted.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from collectors.fleet import bounds
from collectors.fleet.decode import BadLine
from collectors.fleet.sink import LinkChange
from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.registry import SAMPLES
from collectors.samples.stacks import StackDump

LARGEST = 64 << 20
"""Most bytes of a block's lines; a larger block is damaged."""


class RecordingError(OSError):
    """A recording cannot be written or read; the text names the file and the reason."""


FORMAT = 8
"""Increased when fields of samples are added (without a default) or removed; other formats cannot be read."""


class About(NamedTuple):
    """What a recording is about."""

    version: str
    targets: list[str]
    interval: float
    patience: float
    label: str
    format: int = FORMAT


OTHERS = (LinkChange, BadLine, StackDump, RecorderDump, RasReport)
"""Kinds of entries other than samples of a node's stream; the times in dumps are on this machine's clock."""
Payload: TypeAlias = "NamedTuple | LinkChange"


class Entry(NamedTuple):
    """One input of a session."""

    at: float
    node: str
    payload: Payload


for _kind in (*SAMPLES, *OTHERS[1:]):
    bounds.bind(_kind)  # a recording is not trusted
_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    kind.__name__: msgspec.json.Decoder(kind) for kind in (*SAMPLES, *OTHERS)
}
_decode_line = msgspec.json.Decoder(tuple[float, str, str, msgspec.Raw]).decode


class Recording:
    """A recording, open for reading. Nothing of the file is trusted."""

    def __init__(self, path: Path) -> None:
        """Read ``about``. Raises :class:`RecordingError` for any other file."""
        self.path = path
        self.damage = ""
        """Why its end cannot be read; empty for an intact recording."""
        try:
            with closing(self._connected()) as connected:
                about = connected.execute("SELECT value FROM about").fetchone()
                first, last = connected.execute("SELECT min(first), max(last) FROM block").fetchone()
            self.about = msgspec.json.decode(about[0], type=About)
            if self.about.format != FORMAT:
                raise RecordingError(f"{path}: is of hangtop {self.about.version}, in a format that is not read here")
            self.first, self.last = float(first), float(last)
            """The oldest moment that can be shown, and the newest."""
        except (sqlite3.Error, msgspec.DecodeError, TypeError, ValueError) as error:
            raise RecordingError(f"{path}: cannot be read, or is no hangtop recording: {error}") from None
        if not bounds.FIRST_MOMENT <= self.first <= self.last <= bounds.LAST_MOMENT:
            raise RecordingError(f"{path}: is damaged: it holds times that no calendar knows")

    def entries(self, until: float = inf, *, since: float = -inf) -> Iterator[Entry]:
        """All entries up to ``until``, in order, from the last snapshot before ``since``, or from the beginning.

        Ends at the first damaged block, with ``damage`` set. Skips kinds that are no longer recorded.
        """
        blocks = (
            "WITH start AS (SELECT coalesce(max(id) FILTER (WHERE snapshot AND last <= ?1), min(id)) AS id FROM block) "
            "SELECT block.id FROM block, start WHERE block.id = start.id "
            "OR (block.id > start.id AND NOT snapshot AND first <= ?2) ORDER BY block.id"
        )
        try:
            for line in self._lines(blocks, since, until):
                at, node, kind, value = _decode_line(line)
                if not bounds.FIRST_MOMENT <= at <= bounds.LAST_MOMENT:
                    self.damage = f"damaged: {at} is no time"
                    return
                if at <= until and kind in _DECODERS:
                    yield Entry(at, node, _DECODERS[kind].decode(value))
        except (msgspec.DecodeError, ValueError) as error:
            self.damage = f"damaged: {error}"

    def lines(self) -> Iterator[bytes]:
        """All lines of the file as they are, without snapshots."""
        return self._lines("SELECT id FROM block WHERE NOT snapshot ORDER BY id")

    def _lines(self, blocks: str, *values: float) -> Iterator[bytes]:
        """The lines of the blocks that a statement selects, read block by block, so that writing can continue."""
        query = "SELECT body FROM block WHERE id = ? AND typeof(body) = 'blob' AND length(body) < ?"
        try:
            with closing(self._connected()) as connected:
                for (number,) in connected.execute(blocks, values).fetchall():
                    (body,) = connected.execute(query, (number, LARGEST)).fetchone() or (b"",)
                    unpacking = zlib.decompressobj()
                    data = unpacking.decompress(body, LARGEST)
                    if not unpacking.eof:
                        self.damage = "damaged: a block is not whole, or larger than any"
                        return
                    yield from filter(None, data.split(b"\n"))
        except (sqlite3.Error, zlib.error, ValueError, TypeError) as error:
            self.damage = f"damaged, or cut off: {error}"

    def _connected(self) -> sqlite3.Connection:
        connected = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)
        connected.execute("PRAGMA trusted_schema=OFF")
        tables = connected.execute("SELECT type FROM sqlite_master WHERE name IN ('about', 'block')").fetchall()
        if tables != [("table",), ("table",)]:
            connected.close()
            raise sqlite3.DatabaseError("it has not the tables of one")
        return connected
