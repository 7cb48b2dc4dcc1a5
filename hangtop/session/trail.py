"""The last minute of one thing that moves, in little memory.

A look at a process or a GPU is half a kilobyte of Python objects; a minute of them, for 16,384 ranks and as many GPUs,
would be a gigabyte. So the newest look is kept as it came and those before it as rows of MessagePack: exact, and an
eighth of the size. The latest :data:`RECENT` looks are all there; of older ones every :data:`BLOCK`-th, back to
:data:`LOOKS` looks, about a minute at 1 Hz: enough for counters that only grow and for how long a state lasted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TypeAlias, TypeVar, overload

import msgspec

from collectors.samples.gpus import GpuSample
from collectors.samples.ranks import RankPulse
from hangtop.diagnosis.job import Look

T = TypeVar("T")
Read: TypeAlias = Callable[[bytes], list[Look[T]]]

BLOCK = 6
"""Rows that are closed together, and of which one is left when they are old."""
BLOCKS = 2
"""Closed blocks that are kept whole."""
SPARSE = 8
"""Rows kept of older blocks."""
RECENT = BLOCK * BLOCKS + 1
"""Looks before the newest that are there without a gap, at the least."""
LOOKS = BLOCK * (BLOCKS + SPARSE) + 1
"""How many looks back the oldest one may lie, at the least, once so many came."""

_write = msgspec.msgpack.encode
_split = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


class Looks(Sequence[Look[T]]):
    """Looks, oldest first; they are unpacked when asked for. Nothing here changes.

    ``newest`` is the value of the last one that came, None while there is none, and ``at`` its time: both at once.
    """

    __slots__ = ("_blocks", "_held", "_mark", "_older", "_read", "_rows", "_sparse", "_tail", "at", "newest")

    def __init__(
        self,
        read: Read[T],
        ends: tuple[T | None, float, float | None] = (None, 0.0, None),
        tail: tuple[bytes, int, int] = (b"", 0, 0),
        blocks: tuple[bytes, ...] = (),
        older: tuple[bytes, int] = (b"", 0),
    ) -> None:
        """Take the newest value, when it came, until when it held; rows not in a block yet, blocks, older rows.

        Rows are bytes and their number, in ``tail`` with the place where the last one begins.
        """
        self._read = read
        self.newest, self.at, self._held = ends
        self._tail, self._rows, self._mark = tail
        self._blocks = blocks
        self._older, self._sparse = older

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Looks | tuple) else NotImplemented

    def __len__(self) -> int:
        past = self._sparse + len(self._blocks) * BLOCK + self._rows
        return past + (self.newest is not None) + (self._held is not None)

    def __bool__(self) -> bool:
        return self.newest is not None

    @overload
    def __getitem__(self, index: int) -> Look[T]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Look[T]]: ...

    def __getitem__(self, index: int | slice) -> Look[T] | Sequence[Look[T]]:
        if isinstance(index, int):
            if index == -1 and self.newest is not None:
                return Look(self.at if self._held is None else self._held, self.newest)
            return self._last(-index)[index] if index < 0 else self._last(len(self))[index]
        from_end = index.start is not None and index.start < 0 and (index.stop is None or index.stop < 0)
        return self._last(-index.start if from_end else len(self))[index]

    def __iter__(self) -> Iterator[Look[T]]:
        return iter(self._last(len(self)))

    def __reversed__(self) -> Iterator[Look[T]]:
        return reversed(self._last(len(self)))

    def _last(self, least: int) -> list[Look[T]]:
        """At least so many of the newest looks, or all, oldest first."""
        ends: list[Look[T]] = []
        if self.newest is not None:
            ends = [Look(at, self.newest) for at in (self.at, self._held) if at is not None]
        least -= len(ends)
        if least <= 0:
            return ends
        rows, packed = self._rows, self._tail
        if least == 1 and rows:
            rows, packed = 1, packed[self._mark :]
        if least > rows:
            rows, packed = rows + len(self._blocks) * BLOCK, b"".join((*self._blocks, packed))
        if least > rows:
            rows, packed = rows + self._sparse, self._older + packed
        return self._read(_array(rows) + packed) + ends if rows else ends


class Trail(Looks[T]):
    """Looks that grow at their end."""

    __slots__ = ()

    def append(self, at: float, value: T) -> None:
        """Add the newest look; one of long ago gives way."""
        before = (self.at, self.newest)
        self.at, self.newest = at, value
        if before[1] is None:
            return
        try:
            row = _write(before)
        except (OverflowError, UnicodeError):
            return  # no kernel counts beyond 64 bits: it was shown while it was the newest
        if self._rows < BLOCK:
            self._mark = len(self._tail)
            self._tail += row
            self._rows += 1
            return
        blocks = (*self._blocks, self._tail)
        self._tail, self._rows, self._mark = row, 1, 0
        if len(blocks) > BLOCKS:
            self._thin(blocks[0])
            blocks = blocks[1:]
        self._blocks = blocks

    def _thin(self, block: bytes) -> None:
        """Keep the first row of an old block."""
        kept = _split(_array(self._sparse) + self._older)[-(SPARSE - 1) :]
        kept.append(_split(_array(BLOCK) + block)[0])
        self._older, self._sparse = b"".join(map(bytes, kept)), len(kept)

    def frozen(self, held: float | None = None) -> Looks[T]:
        """The looks of this moment; with ``held`` the newest value once more as of then."""
        ends = (self.newest, self.at, held if self.newest is not None else None)
        return Looks(self._read, ends, (self._tail, self._rows, self._mark), self._blocks, (self._older, self._sparse))


def _array(rows: int) -> bytes:
    """Head of a MessagePack array of so many rows (format ``array 16`` of the specification)."""
    return b"\xdc" + rows.to_bytes(2, "big")


def pulses() -> Trail[RankPulse]:
    """An empty trail of a rank's process."""
    return Trail(_reader_of_pulses())


def gpu_rows() -> Trail[GpuSample]:
    """An empty trail of a GPU."""
    return Trail(_reader_of_gpu_rows())


@cache
def _reader_of_pulses() -> Read[RankPulse]:
    return msgspec.msgpack.Decoder(list[Look[RankPulse]]).decode


@cache
def _reader_of_gpu_rows() -> Read[GpuSample]:
    return msgspec.msgpack.Decoder(list[Look[GpuSample]]).decode
