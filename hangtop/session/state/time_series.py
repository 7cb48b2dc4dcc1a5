"""The last minute of what moves: the newest look at each thing as it came, those before it packed by node.

A look at a process or a GPU is half a kilobyte of Python objects; a minute of them, for 16,384 ranks and as many GPUs,
would be a gigabyte. What came from a node in one tick is kept as one row of MessagePack, exact and a fifth of the size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar, overload

import msgspec

from hangtop.diagnosis.job import Look

T = TypeVar("T", bound=NamedTuple)

ROWS = 64
"""Rows that are kept of a node, one a tick; …"""
LARGE, ROWS_OF_LARGE = 256, 32
"""… and of each node of a job of more nodes than this: some 50 KB."""


class SampleRing(Generic[T]):
    """The last rows of one kind of samples of a node. The first field of a sample says of what it is."""

    __slots__ = ("_kind", "_rows")

    def __init__(self, kind: type[T], rows: tuple[tuple[float, bytes], ...] = ()) -> None:
        self._kind = kind
        self._rows = rows

    def append(self, at: float, samples: Sequence[T], rows: int = ROWS) -> None:
        """Add what came in one tick; of what was there so many rows stay."""
        self._rows = (*self._rows, (at, msgspec.msgpack.encode(samples)))[-rows:]

    def frozen(self) -> SampleRing[T]:
        """The rows of this moment."""
        return SampleRing(self._kind, self._rows)

    def of(self, key: object) -> Iterator[Look[T]]:
        """Looks at one thing, newest first, unpacked as far as somebody reads on."""
        for at, row in reversed(self._rows):
            sample = _by_key(self._kind, row).get(key)
            if sample is not None:
                yield Look(at, sample)


@lru_cache(maxsize=4 * ROWS)  # neighbours on a node are read one after the other, and share their rows
def _by_key(kind: type, row: bytes) -> dict[object, Any]:
    return {sample[0]: sample for sample in _decoder(kind).decode(row)}


@cache
def _decoder(kind: type) -> msgspec.msgpack.Decoder[list[Any]]:
    return msgspec.msgpack.Decoder(list[kind])  # type: ignore[valid-type]


class TimeSeries(Sequence[Look[T]]):
    """Looks at one thing, oldest first; who adds one also adds it to the ring of its node.

    ``newest`` is the value of the last one that came, None while there is none, and ``at`` its time: both at once.
    """

    __slots__ = ("_held", "_key", "_ring", "_since", "at", "newest")

    def __init__(self, ring: SampleRing[T], key: object) -> None:
        self._ring = ring
        self._key = key
        self.newest: T | None = None
        self.at = 0.0
        self._held: float | None = None
        """Until when the newest value held, as it came once more."""
        self._since: float | None = None
        """Looks from before are of another thing that had the same key."""

    def take(self, at: float, value: T) -> None:
        """Take the newest look."""
        if self._since is None:
            self._since = at
        self.at, self.newest = at, value

    def frozen(self, ring: SampleRing[T], held: float | None = None) -> TimeSeries[T]:
        """The looks of this moment, by its node's ring; with ``held`` the newest once more as of then."""
        copy = TimeSeries(ring, self._key)
        copy.newest, copy.at, copy._since = self.newest, self.at, self._since
        copy._held = held if self.newest is not None else None
        return copy

    def __len__(self) -> int:
        return sum(1 for _ in reversed(self))

    def __bool__(self) -> bool:
        return self.newest is not None

    @overload
    def __getitem__(self, index: int) -> Look[T]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Look[T]]: ...

    def __getitem__(self, index: int | slice) -> Look[T] | Sequence[Look[T]]:
        if isinstance(index, int):
            return self._last(-index if index < 0 else None)[index]
        from_end = index.start is not None and index.start < 0 and (index.stop is None or index.stop < 0)
        return self._last(-index.start if from_end else None)[index]

    def __iter__(self) -> Iterator[Look[T]]:
        return iter(self._last(None))

    def __reversed__(self) -> Iterator[Look[T]]:
        newest = self.newest
        if newest is None or self._since is None:
            return
        if self._held is not None:
            yield Look(self._held, newest)
        yield Look(self.at, newest)
        for number, look in enumerate(self._ring.of(self._key)):
            # The newest is the first of them, unless it has not moved for so long that it is not among them.
            if look.at >= self._since and (number or look.at != self.at):
                yield look

    def _last(self, count: int | None) -> list[Look[T]]:
        """So many of the newest looks, or all, oldest first."""
        return list(islice(reversed(self), count))[::-1]
