"""The last minute of all things of one kind on a node, in little memory.

A look at a process or a GPU is half a kilobyte of Python objects; a minute of them, for 16,384 ranks and as many GPUs,
would be a gigabyte. What came in one tick is kept together as one row of MessagePack, exact and an eighth of the size,
of a large job packed, :data:`AT_ONCE` at a time, as what differs from the first row of its block (DEFLATE with that as
dictionary): a fifth again. :data:`BLOCK` rows are closed as one block, one packed stream behind the other. The latest
:data:`RECENT` rows are all there; of an older block each thing's first look, back to :data:`ROWS` rows, about a minute
at 1 Hz: enough for counters that only grow and for how long a state lasted.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from collectors.samples.gpus import GpuSample
from collectors.samples.ranks import RankPulse

T = TypeVar("T", bound=NamedTuple)
Row: TypeAlias = tuple[float, list[T]]
Read: TypeAlias = Callable[[bytes], list[Row[T]]]

BLOCK = 12
"""Rows that are closed together, and of which each thing's first look is left when they are old."""
BLOCKS = 1
"""Closed blocks that are kept whole."""
SPARSE = 4
"""Older blocks of which something is left."""
RECENT = BLOCK * BLOCKS + 1
"""Rows that are there without a gap, at the least."""
ROWS = BLOCK * (BLOCKS + SPARSE) + 1
"""How many rows back the oldest one may lie, at the least, once so many came."""
AT_ONCE = 2
"""Rows that are packed together: most of what packing costs is to begin with it, and the last ones lie there plain."""
QUICK = 1
"""Level of compression: a row is packed every second for each of thousands of nodes."""
LITTLE = 5
"""zlib's memory level: what it clears before each row, 256 KB by default, would cost ten times what packing does."""
NARROWEST, WIDEST = 10, 15
"""Logarithms of the least and the largest window of DEFLATE."""

_write = msgspec.msgpack.encode


class Past(Generic[T]):
    """Rows, which nothing changes any more. The first field of a sample says of what it is."""

    __slots__ = ("_blocks", "_last", "_older", "_packs", "_read", "_rows")

    def __init__(
        self,
        read: Read[T],
        rows: tuple[bytes, ...] = (),
        packs: tuple[bytes, ...] = (),
        last: tuple[bytes, ...] = (),
        blocks: tuple[bytes, ...] = (),
        older: tuple[bytes, ...] = (),
    ) -> None:
        """Take what is in no block yet, whole blocks, and what is left of older ones; each oldest first.

        In no block yet are rows as they are, behind them ``packs`` of :data:`AT_ONCE` rows each, packed by those, and
        behind these ``last`` ones that wait for others to be packed with.
        """
        self._read = read
        self._rows = rows
        self._packs = packs
        self._last = last
        self._blocks = blocks
        self._older = older

    def of(self, key: object) -> Iterator[tuple[float, T]]:
        """Looks at one thing, newest first, unpacked as far as somebody reads on."""
        for row in reversed(self._last):
            yield from _named(self._read, row, 1, None).get(key, ())
        by = b"".join(self._rows) if self._packs else b""
        for pack in reversed(self._packs):
            yield from _named(self._read, pack, AT_ONCE, by).get(key, ())
        for row in reversed(self._rows):
            yield from _named(self._read, row, 1, None).get(key, ())
        for block in reversed(self._blocks):
            yield from _named(self._read, block, BLOCK, b"").get(key, ())
        for row in reversed(self._older):
            yield from _named(self._read, row[2:], int.from_bytes(row[:2], "big"), b"").get(key, ())


class Growing(Past[T]):
    """Rows that grow at their end."""

    __slots__ = ("_closed", "_firsts", "_seen")

    def __init__(self, read: Read[T]) -> None:
        super().__init__(read)
        self._firsts: tuple[bytes, ...] = ()
        """Of the rows that are in no block yet, rows of each thing's first look, …"""
        self._closed: tuple[bytes, ...] = ()
        """… and the same of each whole block: how many, and packed."""
        self._seen: tuple[object, ...] = ()
        """What the rows that are in no block yet tell of."""

    def append(self, at: float, samples: Sequence[T], *, sparing: bool = True) -> None:
        """Add what came in one tick; what is of long ago gives way.

        ``sparing``: packed, which of a row costs more CPU than all else that is done with it. Once a row of a block
        was, those behind it are.
        """
        try:
            row = _exact(_write((at, samples)))
        except (OverflowError, UnicodeError):
            # No kernel counts beyond 64 bits: such a sample is shown while it is the newest, and not kept.
            samples = [sample for sample in samples if _writable(sample)]
            row = _write((at, samples))
        if not samples:
            return
        if len(self._rows) + AT_ONCE * len(self._packs) + len(self._last) == BLOCK:
            self._close()
        if not self._rows or not (sparing or self._packs or self._last):
            self._rows = (*self._rows, row)
        elif len(self._last) + 1 < AT_ONCE:
            self._last = (*self._last, row)
        else:
            self._packs = (*self._packs, packed(b"".join((*self._last, row)), b"".join(self._rows)))
            self._last = ()
        told = tuple([sample[0] for sample in samples])
        if told == self._seen:
            return
        new = [sample for sample in samples if sample[0] not in self._seen]
        if new:
            first = row if len(new) == len(samples) else _write((at, new))
            self._firsts = (*self._firsts, first)
            self._seen = told if not self._seen else (*self._seen, *(sample[0] for sample in new))

    def _close(self) -> None:
        plain = b"".join(self._rows)
        head = packed(plain)
        last = packed(b"".join(self._last), plain) if self._last else b""
        firsts = b"".join(self._firsts)
        blocks = (*self._blocks, b"".join((head, *self._packs, last)))
        left = head if firsts == plain else packed(firsts)
        closed = (*self._closed, len(self._firsts).to_bytes(2, "big") + left)
        if len(blocks) > BLOCKS:
            self._older = (*self._older, closed[0])[-SPARSE:]
            blocks, closed = blocks[1:], closed[1:]
        self._blocks, self._closed = blocks, closed
        self._rows, self._packs, self._last, self._seen, self._firsts = (), (), (), (), ()

    def frozen(self) -> Past[T]:
        """The rows of this moment."""
        return Past(self._read, self._rows, self._packs, self._last, self._blocks, self._older)

    def __reduce__(self) -> tuple[Callable[..., Growing[T]], tuple[object, ...]]:
        """What a copy is made of: a decoder cannot be copied, but which of the two it is can be told."""
        of_ranks = self._read == _reader_of_pulses()
        held = (self._rows, self._packs, self._last, self._blocks, self._older, self._firsts, self._closed)
        return _thawed, (of_ranks, held, self._seen)


def _thawed(of_ranks: bool, held: tuple[tuple[bytes, ...], ...], seen: tuple[object, ...]) -> Growing[Any]:
    copy: Growing[Any] = pulses() if of_ranks else gpu_rows()
    copy._rows, copy._packs, copy._last, copy._blocks, copy._older, copy._firsts, copy._closed = held  # noqa: SLF001 - this module's own
    copy._seen = seen  # noqa: SLF001
    return copy


def packed(data: bytes, by: bytes = b"") -> bytes:
    """What these bytes have beyond those of ``by``; :func:`unpacked` makes them again."""
    window = max(NARROWEST, min(WIDEST, (len(data) + len(by)).bit_length()))
    packer = zlib.compressobj(QUICK, zlib.DEFLATED, -window, LITTLE, zlib.Z_DEFAULT_STRATEGY, by)
    return _exact(packer.compress(data), packer.flush())


def unpacked(data: bytes, by: bytes = b"") -> bytes:
    """The bytes that were :func:`packed`; those of several, one behind the other, are all but the first by the first.

    Raises :class:`zlib.error`.
    """
    unpacker = zlib.decompressobj(-WIDEST, by)
    parts = [unpacker.decompress(data)]
    while unpacker.unused_data:
        data, unpacker = unpacker.unused_data, zlib.decompressobj(-WIDEST, parts[0])
        parts.append(unpacker.decompress(data))
    return b"".join(parts)


def _exact(first: bytes, second: bytes = b"") -> bytes:
    """Both, in memory of their size: what a writer gives was cut out of more, and lies as a hole in its heap."""
    return b"".join((first, second))


def _writable(sample: object) -> bool:
    try:
        _write(sample)
    except (OverflowError, UnicodeError):
        return False
    return True


@lru_cache(maxsize=16)  # neighbours on a node are read one after the other, and share their rows
def _named(read: Read[T], data: bytes, rows: int, by: bytes | None) -> dict[object, tuple[tuple[float, T], ...]]:
    """Looks of some rows by what they are of, newest first; packed by these bytes, or not at all."""
    named: dict[object, tuple[tuple[float, T], ...]] = {}
    # Head of a MessagePack array of so many rows (format ``array 16`` of the specification).
    head = b"\xdc" + rows.to_bytes(2, "big")
    for at, samples in read(head + (data if by is None else unpacked(data, by))):
        for sample in samples:
            named[sample[0]] = ((at, sample), *named.get(sample[0], ()))
    return named


def pulses() -> Growing[RankPulse]:
    """An empty past of a node's ranks, by pid."""
    return Growing(_reader_of_pulses())


def gpu_rows() -> Growing[GpuSample]:
    """An empty past of a node's GPUs, by index."""
    return Growing(_reader_of_gpu_rows())


@cache
def _reader_of_pulses() -> Read[RankPulse]:
    return msgspec.msgpack.Decoder(list[tuple[float, list[RankPulse]]]).decode


@cache
def _reader_of_gpu_rows() -> Read[GpuSample]:
    return msgspec.msgpack.Decoder(list[tuple[float, list[GpuSample]]]).decode
