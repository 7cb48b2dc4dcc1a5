"""Blocks of entries: how recordings, and the past that a live session keeps of itself, lie in files.

A block is a header (``HEADER``: bytes of its body, bytes unpacked, time of its first and its last entry) and a body:
zstd over entries, each its length and then msgpack ``[at, node, what, payload]``. The headers alone tell where a time
is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, Literal, NamedTuple, TypeAlias

import msgspec
import zstandard

from collectors.fleet import bounds
from collectors.fleet.sink import LinkChange
from collectors.node.secrets import blotting
from collectors.samples.collectives import RasEvent, RasReport, RecorderDump
from collectors.samples.fabric import PortUse
from collectors.samples.gpus import GpuProcesses
from collectors.samples.logs import LogEvent, LogLines
from collectors.samples.ranks import Helper, RankProcess
from collectors.samples.registry import SAMPLES
from collectors.samples.stacks import StackDump
from collectors.samples.stream import Fault

HEADER = struct.Struct("<IIdd")
BLOCK_BYTES = 256 * 1024
"""Unpacked bytes after which a block is written …"""
BLOCK_SECONDS = 5.0
"""… or seconds: what a crash of hangtop may cost."""
LEVEL = 3

What: TypeAlias = Literal[
    "samples", "link", "bad_line", "pause", "stacks", "recorder", "ras", "ras_event", "mark", "about"
]  # fmt: skip


class About(NamedTuple):
    """First entry of a recording; the last one, too, of one that was closed: it tells how long was watched."""

    version: str
    targets: list[str]
    started: float
    interval: float
    patience: float
    label: str


class RecordedBadLine(NamedTuple):
    """A line of a node that did not decode."""

    text: str
    why: str


class Stacks(NamedTuple):
    """What a look at a node's stacks brought, on this machine's clock."""

    dumps: list[StackDump]


class RecordedPause(NamedTuple):
    """A look of ours that pauses processes began, or is over: what they show meanwhile is not their own doing."""

    pids: list[int]
    over: bool


class RecordedMark(NamedTuple):
    """What somebody marked on the line of time, on this machine's clock: at the entry's time, of this moment."""

    at: float
    text: str


Witness: TypeAlias = RecorderDump | RasReport | RasEvent
"""What a job's own libraries said when they were asked."""
Payload: TypeAlias = (
    Sequence[NamedTuple] | LinkChange | RecordedBadLine | RecordedPause | Stacks | Witness | RecordedMark | About
)


class RecordedEntry(NamedTuple):
    """One thing that was taken in."""

    at: float
    node: str
    payload: Payload
    """Samples of one chunk, or one of the others."""


WORDS = frozenset((LogEvent, LogLines, RankProcess, Helper, PortUse, GpuProcesses, Fault))
"""Kinds that carry what a program or its user wrote."""
_encode = msgspec.msgpack.Encoder().encode
_raw = msgspec.msgpack.Decoder(tuple[float, str, What, msgspec.Raw]).decode
_chunk = msgspec.msgpack.Decoder(list[tuple[str, msgspec.Raw]]).decode
for _kind in (*SAMPLES, RecorderDump, RasReport, RasEvent):
    bounds.bind(_kind)  # a recording may come from anybody
_samples: dict[str, Callable[[msgspec.Raw], Any]] = {
    kind.__name__: msgspec.msgpack.Decoder(kind).decode for kind in SAMPLES
}


def _decode_samples(payload: msgspec.Raw) -> Sequence[NamedTuple]:
    return [_samples[kind](sample) for kind, sample in _chunk(payload)]


PAYLOADS: dict[What, Callable[[msgspec.Raw], Payload]] = {
    "samples": _decode_samples,
    "link": msgspec.msgpack.Decoder(LinkChange).decode,
    "bad_line": msgspec.msgpack.Decoder(RecordedBadLine).decode,
    "pause": msgspec.msgpack.Decoder(RecordedPause).decode,
    "stacks": msgspec.msgpack.Decoder(Stacks).decode,
    "recorder": msgspec.msgpack.Decoder(RecorderDump).decode,
    "ras": msgspec.msgpack.Decoder(RasReport).decode,
    "ras_event": msgspec.msgpack.Decoder(RasEvent).decode,
    "mark": msgspec.msgpack.Decoder(RecordedMark).decode,
    "about": msgspec.msgpack.Decoder(About).decode,
}


_WITNESSES: dict[type[Witness], What] = {RecorderDump: "recorder", RasReport: "ras", RasEvent: "ras_event"}


class PackedBlock(NamedTuple):
    """Where a block is, and which time it covers."""

    offset: int
    size: int
    unpacked: int
    first: float
    last: float


class BlockWriter:
    """Writes entries as blocks; one at a time, from the event loop (a block costs a millisecond or two)."""

    def __init__(self, file: BinaryIO) -> None:
        """Write to the end of ``file``, which is the caller's to open and close."""
        self._file = file
        self.blocks: list[PackedBlock] = []
        """Those written so far."""
        self.bytes_written = 0
        self._pack = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress
        self._entries: list[bytes] = []
        self._size = 0
        self._first = self._last = 0.0

    def samples(self, at: float, node: str, samples: Sequence[NamedTuple]) -> None:
        """Add the samples of one chunk."""
        named = [(type(s).__name__, _without_secrets(s) if type(s) in WORDS else s) for s in samples]
        self.add(at, node, "samples", named)

    def link(self, at: float, change: LinkChange) -> None:
        """Add a node's new connection state."""
        self.add(at, change.node, "link", change)

    def bad_line(self, at: float, node: str, text: str, why: str) -> None:
        """Add a line that did not decode."""
        self.add(at, node, "bad_line", RecordedBadLine(blotting.shapes(text), why))

    def pause(self, at: float, node: str, pids: Sequence[int], *, over: bool) -> None:
        """Add that a look which pauses processes began, or is over."""
        self.add(at, node, "pause", RecordedPause(list(pids), over))

    def stacks(self, at: float, node: str, dumps: Sequence[StackDump]) -> None:
        """Add what a look at stacks brought."""
        self.add(at, node, "stacks", Stacks(list(dumps)))

    def witness(self, at: float, said: Witness) -> None:
        """Add what a flight recorder held, RAS answered, or RAS noticed."""
        self.add(at, "", _WITNESSES[type(said)], said)

    def mark(self, at: float, mark: RecordedMark) -> None:
        """Add a mark that somebody set."""
        self.add(at, "", "mark", mark._replace(text=blotting.shapes(mark.text)))

    def add(self, at: float, node: str, what: What, payload: object) -> None:
        """Add one entry. Raises :class:`OSError` when a block that is full cannot be written."""
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
            self.flush()

    def flush(self) -> None:
        """Write what is left. Raises :class:`OSError`."""
        if not self._entries:
            return
        body = self._pack(b"".join(self._entries))
        offset = self._file.tell() + HEADER.size
        self._file.write(HEADER.pack(len(body), self._size, self._first, self._last) + body)
        self._file.flush()
        self.bytes_written += HEADER.size + len(body)
        self.blocks.append(PackedBlock(offset, len(body), self._size, self._first, self._last))
        self._entries.clear()
        self._size = 0


def _without_secrets(value: Any) -> Any:
    """The same sample, every text in it without tokens that show by their shape: a recording is passed on."""
    if isinstance(value, str):
        return blotting.shapes(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_without_secrets, value))
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_secrets(item) for key, item in value.items()}
    return value


def are_times(first: float, last: float) -> bool:
    """Whether these are times, in order; what no calendar knows is damaged, NaN too."""
    return bounds.FIRST_MOMENT <= first <= last <= bounds.LAST_MOMENT


def unpack(body: bytes, unpacked: int) -> Iterator[RecordedEntry]:
    """Entries of one block. Raises :class:`ValueError` and those of msgspec and zstandard for a damaged one."""
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


def _entry(data: memoryview) -> RecordedEntry:
    at, node, what, payload = _raw(data)
    if not are_times(at, at):
        raise ValueError(f"{at} is no time")
    return RecordedEntry(at, node, PAYLOADS[what](payload))
