"""The files under some paths, as streams: plain, gzip, or in a tar (which may be gzip), in any nesting."""

from __future__ import annotations

import gzip
import io
import os
import re
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self, cast

from collectors.fleet.clean import clean

CHUNK = 256 << 10
"""Bytes of one read."""
HEAD = 1 << 16
"""Bytes by which a file is recognised."""
MOST_FILES = 50_000
"""Files, and members of archives, that are read at all."""
FOLDERS, PACKED = 64, 3
"""Folders, and archives, within one another that are gone into."""
LEAST, TIMES = 4 << 30, 1000
"""Bytes that any archive may unpack to, and times its size on disk that a larger one may: more than any log but one
line over and over."""
LARGEST_HEADER = 1 << 20
"""Bytes of one header of a tar that comes before a member: its long name, or what pax adds."""

_DAMAGED = (
    OSError, EOFError, zlib.error, tarfile.TarError, struct.error, ValueError, LookupError, TypeError, AttributeError,
    ArithmeticError, MemoryError,
)  # fmt: skip
"""What the libraries raise on damaged archives: what they document, and what mutated ones have shown."""
_HOLE = re.compile(rb"\0{32,}")


class TooLargeError(OSError):
    """More came out of a compressed file than may; the text says so in one line."""


@dataclass(slots=True)
class Member:
    """One file to read. ``head`` are its first bytes; :meth:`chunks` gives them again, and the rest."""

    name: str
    """Path, and the path inside the archive: ``logs.tar.gz/node1/rank0.log``."""
    head: bytes
    modified: float | None
    stream: io.BufferedReader[io.RawIOBase]
    size: int = 0
    """Bytes given out so far, once uncompressed."""
    damage: str = ""
    """Why its end could not be read."""

    def chunks(self) -> Iterator[bytes]:
        """All bytes, in order, a chunk at a time."""
        chunk = self.head
        while chunk:
            self.size += len(chunk)
            yield chunk
            try:
                chunk = self.stream.read1(CHUNK)
            except TooLargeError as error:
                self.damage = str(error)
                return
            except _DAMAGED as error:
                self.damage = f"damaged: {clean(str(error))[:300]}"
                return

    def whole(self, limit: int) -> bytes | None:
        """All bytes; None when there are more than ``limit``."""
        parts: list[bytes] = []
        for chunk in self.chunks():
            parts.append(chunk)
            if self.size > limit:
                return None
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that could not be read, and why."""

    name: str
    why: str


def members(paths: Sequence[Path], advance: Callable[[int], None] = lambda _: None) -> Iterator[Member | Unreadable]:
    """Every file under the paths, in order of their names. ``advance`` is told how many bytes were read from disk."""
    every = (member for path in paths for file in _files(path) for member in _opened(file, advance))
    for number, member in enumerate(every):
        if number == MOST_FILES:
            yield Unreadable("…", f"there are more than {MOST_FILES:,} files: the others were not read")
            return
        yield member


def _files(start: Path) -> Iterator[Path | Unreadable]:
    waiting = [(start, 0)]
    while waiting:
        path, depth = waiting.pop()
        try:
            if not path.exists():
                yield Unreadable(clean(str(path)), "there is no such file")
            elif not path.is_dir():
                yield path
            elif depth > FOLDERS:
                yield Unreadable(clean(str(path)), f"more than {FOLDERS} folders deep")
            else:
                inside = sorted(path.iterdir(), reverse=True)
                # a link to a folder is a loop, or what is found elsewhere
                waiting += [(entry, depth + 1) for entry in inside if not (entry.is_symlink() and entry.is_dir())]
        except OSError as error:
            yield Unreadable(clean(str(path))[:1000], error.strerror or str(error))


def _opened(path: Path | Unreadable, advance: Callable[[int], None]) -> Iterator[Member | Unreadable]:
    if isinstance(path, Unreadable):
        yield path
        return
    name = clean(str(path))
    if not path.is_file():
        yield Unreadable(name, "no regular file")
        return
    try:
        with path.open("rb", buffering=0) as disk:
            status = os.fstat(disk.fileno())
            counted = _Counted(cast("BinaryIO", disk), advance)
            yield from _unpacked(name, counted, status.st_mtime, _Limit(status.st_size), 0)
    except _DAMAGED as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        yield Unreadable(name, clean(why)[:300])


def _unpacked(
    name: str, raw: io.RawIOBase, modified: float | None, limit: _Limit, depth: int
) -> Iterator[Member | Unreadable]:
    """A stream as what it is: an archive's members, or one file."""
    stream = io.BufferedReader(raw)
    first = stream.peek(512) if depth < PACKED else b""
    if first.startswith(b"\x1f\x8b"):
        with gzip.GzipFile(fileobj=stream) as plain:
            counted = _Counted(cast("BinaryIO", plain), limit.take)
            yield from _unpacked(name.removesuffix(".gz"), counted, modified, limit, depth + 1)
    elif first[257:262] == b"ustar":
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header) as archive:
            for entry in archive:
                content = archive.extractfile(entry) if entry.isreg() and not entry.issparse() else None
                if content is not None:
                    counted = _Counted(cast("BinaryIO", content), limit.take)
                    inside = f"{name}/{clean(entry.name)[:1000]}"
                    yield from _unpacked(inside, counted, float(entry.mtime), limit, depth + 1)
    else:
        yield Member(name, _head(stream), modified, stream)


def _head(stream: io.BufferedReader[io.RawIOBase]) -> bytes:
    """The first bytes; less of what is damaged: who reads on learns so."""
    head = b""
    with suppress(*_DAMAGED):
        while len(head) < HEAD and (more := stream.read1(HEAD - len(head))):
            head += more
    return head


class _Limit:
    """Bytes that may come out of one file on disk, through all archives within one another."""

    def __init__(self, size: int) -> None:
        self._most = self._left = max(LEAST, TIMES * size)
        self._size = size

    def take(self, count: int) -> None:
        """So many more bytes have come out. Raises :class:`TooLargeError`."""
        self._left -= count
        if self._left < 0:
            raise TooLargeError(f"{self._size:,} bytes swell to more than {self._most:,}: the rest was not read")


class _Counted(io.RawIOBase):
    """A stream that tells how many bytes were read from it."""

    def __init__(self, stream: BinaryIO, told: Callable[[int], None]) -> None:
        super().__init__()
        self._stream = stream
        self._told = told

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: object) -> int:
        """Read the next bytes."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        data = self._stream.read(len(view))
        view[: len(data)] = data
        self._told(len(data))
        return len(data)


class _Header(tarfile.TarInfo):
    """A header that is refused when the library would read gigabytes of it into memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Read a header. Raises :class:`tarfile.ReadError` for one that announces too much."""
        made = super().frombuf(buf, encoding, errors)
        if not made.isreg() and made.size > LARGEST_HEADER:
            raise tarfile.ReadError(f"a header of {made.size:,} bytes")
        return made


def is_binary(head: bytes) -> bool:
    """Whether a file that begins so is no text: zeros, or mostly bytes that no text has.

    A row of zeros in a text is a hole: of a log that was emptied, or cut by a crash, while somebody wrote it.
    """
    text = _HOLE.sub(b"", head)
    if len(text) < len(head) and any(byte < 9 or byte == 127 for byte in text[:4096]):
        return True
    sample = text[:4096] or head[:4096]
    odd = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in sample)
    return sample.count(0) > len(sample) // 64 or odd * 5 > len(sample)
