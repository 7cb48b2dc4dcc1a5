"""Recordings: everything that a session took in, with its times, in a file that can be replayed and sought in.

Layout: a magic line, then blocks. A block is a header (``HEADER``: bytes of its body, bytes unpacked, time of its first
and its last entry) and a body: zstd over entries, each its length and then msgpack ``[at, node, what, payload]``. The
headers alone tell where a time is, and a file that was cut off in the middle of a block is good up to there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeAlias

import msgspec
import zstandard

from collectors.fleet.sink import LinkChange
from collectors.samples.registry import SAMPLES
from collectors.samples.stacks import StackDump

MAGIC = b"hangtop recording 1\n"
HEADER = struct.Struct("<IIdd")
BLOCK_BYTES = 256 * 1024
"""Unpacked bytes after which a block is written …"""
BLOCK_SECONDS = 5.0
"""… or seconds: what a crash of hangtop may cost."""
MOST_BYTES = 64 << 20
"""A header that claims a larger block is damaged."""
LEVEL = 3

What: TypeAlias = Literal["samples", "link", "bad_line", "stacks", "about"]


class About(NamedTuple):
    """First entry of a recording."""

    version: str
    targets: list[str]
    started: float
    interval: float
    patience: float
    label: str


class BadLine(NamedTuple):
    """A line of a node that did not decode."""

    text: str
    why: str


class Stacks(NamedTuple):
    """What a look at a node's stacks brought, on this machine's clock."""

    dumps: list[StackDump]


Payload: TypeAlias = Sequence[NamedTuple] | LinkChange | BadLine | Stacks | About


class Entry(NamedTuple):
    """One thing that was taken in."""

    at: float
    node: str
    payload: Payload
    """Samples of one chunk, or one of the others."""


class RecordingError(Exception):
    """The file cannot be written or read; the text names it and says why."""


_encode = msgspec.msgpack.Encoder().encode
_raw = msgspec.msgpack.Decoder(tuple[float, str, What, msgspec.Raw]).decode
_chunk = msgspec.msgpack.Decoder(list[tuple[str, msgspec.Raw]]).decode
_samples: dict[str, Callable[[msgspec.Raw], Any]] = {
    kind.__name__: msgspec.msgpack.Decoder(kind).decode for kind in SAMPLES
}


def _decode_samples(payload: msgspec.Raw) -> Sequence[NamedTuple]:
    return [_samples[kind](sample) for kind, sample in _chunk(payload)]


PAYLOADS: dict[What, Callable[[msgspec.Raw], Payload]] = {
    "samples": _decode_samples,
    "link": msgspec.msgpack.Decoder(LinkChange).decode,
    "bad_line": msgspec.msgpack.Decoder(BadLine).decode,
    "stacks": msgspec.msgpack.Decoder(Stacks).decode,
    "about": msgspec.msgpack.Decoder(About).decode,
}


class Recorder:
    """Writes a recording; one block at a time, from the event loop (a block costs a millisecond or two)."""

    def __init__(self, path: Path, about: About) -> None:
        """Create the file. Raises :class:`RecordingError`, also when it is there already."""
        self.path = path
        self.bytes_written = 0
        try:
            # Open for as long as the session runs; close() ends it.
            self._file: BinaryIO = path.open("xb")
            self._file.write(MAGIC)
        except FileExistsError:
            raise RecordingError(f"{path}: is there already; a recording is never overwritten") from None
        except OSError as error:
            raise RecordingError(f"{path}: cannot be written: {error.strerror}") from None
        self._pack = zstandard.ZstdCompressor(level=LEVEL).compress
        self._entries: list[bytes] = []
        self._size = 0
        self._first = self._last = about.started
        self._add(about.started, "", "about", about)

    def samples(self, at: float, node: str, samples: Sequence[NamedTuple]) -> None:
        """Add the samples of one chunk."""
        self._add(at, node, "samples", [(type(sample).__name__, sample) for sample in samples])

    def link(self, at: float, change: LinkChange) -> None:
        """Add a node's new connection state."""
        self._add(at, change.node, "link", change)

    def bad_line(self, at: float, node: str, text: str, why: str) -> None:
        """Add a line that did not decode."""
        self._add(at, node, "bad_line", BadLine(text, why))

    def stacks(self, at: float, node: str, dumps: Sequence[StackDump]) -> None:
        """Add what a look at stacks brought."""
        self._add(at, node, "stacks", Stacks(list(dumps)))

    def close(self) -> None:
        """Write what is left and end the file. Raises :class:`RecordingError`."""
        try:
            self._flush()
        finally:
            self._file.close()

    def _add(self, at: float, node: str, what: What, payload: object) -> None:
        entry = _encode((at, node, what, payload))
        if not self._entries:
            self._first = at
        # A wall clock may be set back; a block's times never run backwards.
        self._last = max(self._first, at)
        # Each entry is preceded by its length: msgpack alone does not say where a damaged one ends.
        self._entries.append(len(entry).to_bytes(4, "little"))
        self._entries.append(entry)
        self._size += len(entry) + 4
        if self._size >= BLOCK_BYTES or at - self._first >= BLOCK_SECONDS:
            self._flush()

    def _flush(self) -> None:
        if not self._entries:
            return
        body = self._pack(b"".join(self._entries))
        try:
            self._file.write(HEADER.pack(len(body), self._size, self._first, self._last) + body)
            self._file.flush()
        except OSError as error:
            raise RecordingError(f"{self.path}: cannot be written: {error.strerror}") from None
        self.bytes_written += HEADER.size + len(body)
        self._entries.clear()
        self._size = 0


class Block(NamedTuple):
    """Where a block is, and which time it covers."""

    offset: int
    size: int
    unpacked: int
    first: float
    last: float


class Recording:
    """A recording, open for reading."""

    def __init__(self, path: Path) -> None:
        """Open it and read its headers. Raises :class:`RecordingError` for anything that is no recording."""
        self.path = path
        self.damage = ""
        """What is wrong with its end; empty for a whole one."""
        try:
            with path.open("rb") as file:
                self.blocks = tuple(self._scan(file))
        except OSError as error:
            raise RecordingError(f"{path}: cannot be read: {error.strerror}") from None
        first = next(self.entries(), None)
        if first is None or not isinstance(first.payload, About):
            raise RecordingError(f"{path}: {self.damage or 'holds nothing'}")
        self.about = first.payload

    @property
    def span(self) -> tuple[float, float]:
        """Times of its first and last entry."""
        return self.blocks[0].first, max(block.last for block in self.blocks)

    def entries(self, *, until: float = float("inf")) -> Iterator[Entry]:
        """All entries up to a time, in order; ends at the first damaged one and says so in ``damage``."""
        try:
            with self.path.open("rb") as file:
                for block in self.blocks:
                    if block.first > until:
                        return
                    file.seek(block.offset)
                    for entry in _unpack(file.read(block.size), block.unpacked):
                        if entry.at > until:
                            return
                        yield entry
        except OSError as error:
            raise RecordingError(f"{self.path}: cannot be read: {error.strerror}") from None
        except (msgspec.DecodeError, zstandard.ZstdError, KeyError, ValueError) as error:
            self.damage = f"damaged after {self._seconds(block.first)} s: {error}"

    def _scan(self, file: BinaryIO) -> Iterator[Block]:
        if file.read(len(MAGIC)) != MAGIC:
            raise RecordingError(f"{self.path}: is no hangtop recording")
        size = self.path.stat().st_size
        offset = file.tell()
        while header := file.read(HEADER.size):
            if len(header) < HEADER.size:
                self.damage = "cut off in a block's header"
                return
            packed, unpacked, first, last = HEADER.unpack(header)
            offset += HEADER.size
            if max(packed, unpacked) > MOST_BYTES or not first <= last:
                self.damage = f"damaged at byte {offset}"
                return
            if offset + packed > size:
                self.damage = "cut off in the middle of a block"
                return
            yield Block(offset, packed, unpacked, first, last)
            offset += packed
            file.seek(offset)

    def _seconds(self, at: float) -> int:
        return round(at - self.blocks[0].first)


def _unpack(body: bytes, unpacked: int) -> Iterator[Entry]:
    if zstandard.frame_content_size(body) != unpacked:
        raise ValueError("a block's size is not what its header says")
    data = memoryview(zstandard.ZstdDecompressor().decompress(body))
    at = 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        if end > len(data):
            raise ValueError("an entry is longer than its block")
        yield _entry(data[at + 4 : end])
        at = end


def _entry(data: memoryview) -> Entry:
    at, node, what, payload = _raw(data)
    return Entry(at, node, PAYLOADS[what](payload))
