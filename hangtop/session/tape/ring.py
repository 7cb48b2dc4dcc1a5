"""Everything that a session took in lately, in files without names, bounded: the oldest part gives way.

A part holds blocks of entries, as a recording does, and frames: every few seconds a copy of the state of every node, so
that a moment can be made from the frame before it and what came in between. The files have no names (``O_TMPFILE``, or
unlinked at once): nothing is left of them, however hangtop ends.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

import zstandard

from collectors.fleet.sink import LinkChange
from collectors.samples.collectives import RecorderDump
from collectors.samples.logs import CommProgress
from collectors.samples.stacks import StackDump
from hangtop.session.state.job_state import JobState, NodeState
from hangtop.session.tape.blocks import BlockWriter, RecordedEntry, RecordedMark, Witness, unpack

LIMIT = 256 << 20
"""Bytes of all parts: an hour of 64 nodes with eight GPUs each, a day of a small job."""
PARTS = 16
"""Parts that this makes, of which the oldest goes."""
EVERY = 20.0
"""Seconds between two frames."""
SLICE = 8
"""Nodes copied in one go: some 3 ms."""
MOST_NODES = 512
"""Nodes of a job whose past is kept: beyond that it would take a tenth of a core, and reach back a few minutes."""


class Copy(NamedTuple):
    """Where the copy of a node's state is."""

    at: float
    part: RingFile
    offset: int
    size: int


@dataclass(slots=True, eq=False)
class Keyframe:
    """The state of all nodes; each was copied at its own time, from ``at`` on."""

    at: float
    nodes: dict[str, Copy] = field(default_factory=dict)
    progress: Mapping[tuple[str, str, int], CommProgress] = field(default_factory=dict)
    recorders: Mapping[int, RecorderDump] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class RingFile:
    """One file."""

    file: BinaryIO
    writer: BlockWriter
    frames: list[Keyframe] = field(default_factory=list)

    @property
    def packed(self) -> int:
        """Bytes of its blocks, without the frames between them."""
        return self.writer.bytes_written


class Ring:
    """Takes what a session takes, until it is closed. Raises :class:`OSError` when the disk is full."""

    def __init__(self, began: float, limit: int = LIMIT) -> None:
        """Begin at a time, with nothing known."""
        self._limit = limit
        self._parts: list[RingFile] = [_part()]
        self._parts[0].frames.append(Keyframe(began))
        self._framed = float("-inf")
        self._pack = zstandard.ZstdCompressor(level=1).compress

    @property
    def first(self) -> float:
        """The oldest moment that can be made."""
        return next(frame.at for part in self._parts for frame in part.frames)

    def close(self) -> None:
        """Give the room back; what could not be written any more is lost with the rest."""
        for part in self._parts:
            with suppress(OSError):  # it writes what is left, and the disk may be full
                part.file.close()

    def witness(self, at: float, said: Witness) -> None:
        """Add what a flight recorder held, or RAS answered."""
        self._writer.witness(at, said)

    def samples(self, at: float, node: str, samples: Sequence[NamedTuple]) -> None:
        """Add the samples of one chunk."""
        self._writer.samples(at, node, samples)

    def link(self, at: float, change: LinkChange) -> None:
        """Add a node's new connection state."""
        self._writer.link(at, change)

    def bad_line(self, at: float, node: str, text: str, why: str) -> None:
        """Add a line that did not decode."""
        self._writer.bad_line(at, node, text, why)

    def pause(self, at: float, node: str, pids: Sequence[int], *, over: bool) -> None:
        """Add that a look which pauses processes began, or is over."""
        self._writer.pause(at, node, pids, over=over)

    def stacks(self, at: float, node: str, dumps: Sequence[StackDump]) -> None:
        """Add what a look at stacks brought."""
        self._writer.stacks(at, node, dumps)

    def mark(self, at: float, mark: RecordedMark) -> None:
        """Add a mark that somebody set."""
        self._writer.mark(at, mark)

    @property
    def _writer(self) -> BlockWriter:
        return self._parts[-1].writer

    def framing(self, at: float, state: JobState) -> Iterator[None]:
        """Copy the state of all nodes when it is time to, in slices; to be called once a second."""
        if at - self._framed < EVERY:
            return
        self._framed = at
        frame = Keyframe(at, progress=dict(state.progress), recorders=dict(state.recorders))
        self._turn()
        part = self._parts[-1]
        for number, node in enumerate(tuple(state.nodes.values()), 1):
            packed = self._pack(pickle.dumps(node, pickle.HIGHEST_PROTOCOL))
            frame.nodes[node.name] = Copy(at, part, part.file.tell(), len(packed))
            part.file.write(packed)
            if number % SLICE == 0:
                yield
        part.file.flush()
        if self.first >= at:  # what was known when it began: there is nothing before it
            self._parts[0].frames.clear()
        part.frames.append(frame)

    def _turn(self) -> None:
        """Go on to a new part when the present one is full, and drop the oldest when there is too much."""
        newest = self._parts[-1]
        if newest.file.tell() >= self._limit // PARTS:
            newest.writer.flush()
            self._parts.append(_part())
        while len(self._parts) > 2 and sum(part.file.tell() for part in self._parts) > self._limit:
            self._parts.pop(0).file.close()

    def parts(self) -> tuple[RingFile, ...]:
        """The files, the oldest first, with all that was taken in them; each but the newest begins with a frame."""
        self._writer.flush()
        return tuple(self._parts)

    # --- reading -------------------------------------------------------------------------------------------------

    def frame(self, at: float) -> Keyframe:
        """The newest frame that is not newer than this; the oldest where all are."""
        frames = [frame for part in self._parts for frame in part.frames]
        return max((frame for frame in frames if frame.at <= at), key=lambda frame: frame.at, default=frames[0])

    def read(self, since: float, until: float) -> list[RecordedEntry]:
        """What was taken after ``since`` and up to ``until``, in its order."""
        self._writer.flush()
        return [
            entry
            for part in self._parts
            for block in part.writer.blocks
            if block.last > since and block.first <= until
            for entry in unpack(os.pread(part.file.fileno(), block.size, block.offset), block.unpacked)
            if since < entry.at <= until
        ]


def thawed(copy: Copy) -> NodeState:
    """The state of a node as it was copied."""
    packed = os.pread(copy.part.file.fileno(), copy.size, copy.offset)
    # what this process wrote itself, to a file that has no name
    node = pickle.loads(zstandard.ZstdDecompressor().decompress(packed))  # noqa: S301
    assert isinstance(node, NodeState)
    return node


def _part() -> RingFile:
    file = tempfile.TemporaryFile(prefix="hangtop-")  # noqa: SIM115 - closed when it gives way, or with the ring
    return RingFile(file, BlockWriter(file))
