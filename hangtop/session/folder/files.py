"""The files under some paths, as streams: plain, gzip, or in a tar (which may be gzip), within one another."""

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
from typing import Any, Self, TypeAlias, cast

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
"""Bytes that any archive may unpack to, and times its size on disk that a larger one may."""
LARGEST_HEADER = 1 << 20
"""Bytes of one header of a tar that comes before a member: its long name, or what pax adds."""

_DAMAGED = (
    OSError, EOFError, zlib.error, tarfile.TarError, struct.error, ValueError, LookupError, TypeError, AttributeError,
    ArithmeticError, MemoryError,
)  # fmt: skip
"""What the libraries raise on damaged archives: what they document, and what mutated ones have shown."""
_HOLE = re.compile(rb"\0{32,}")


Stream: TypeAlias = "io.BufferedReader[Any]"


class TooLargeError(OSError):
    """More came out of a compressed file than may; the text says so in one line."""


@dataclass(slots=True)
class Allowance:
    """Bytes that may come out of one file on disk, through all archives within one another."""

    size: int
    """Of the file on disk."""
    taken: int = 0

    def take(self, count: int) -> None:
        """So many more bytes come out. Raises :class:`TooLargeError`."""
        self.taken += count
        most = max(LEAST, TIMES * self.size)
        if self.taken > most:
            raise TooLargeError(f"{self.size:,} bytes swell to more than {most:,}: the rest was not read")


@dataclass(slots=True)
class Member:
    """One file to read. ``head`` are its first bytes; :meth:`chunks` gives them again, and the rest."""

    name: str
    """Path, and the path inside the archive: ``logs.tar.gz/node1/rank0.log``."""
    head: bytes
    modified: float
    stream: Stream
    allowance: Allowance
    advance: Callable[[int], None]
    size: int = 0
    """Bytes given out so far, once uncompressed."""
    damage: str = ""
    """Why its end could not be read."""

    def chunks(self) -> Iterator[bytes]:
        """All bytes, in order, a chunk at a time."""
        chunk = self.head
        while chunk:
            self.size += len(chunk)
            self.advance(len(chunk))
            yield chunk
            try:
                self.allowance.take(len(chunk))
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
    """Every file under the paths, in order of their names. ``advance`` is told how many bytes were read."""
    every = (member for path in paths for file in _files(path) for member in _opened(file, advance))
    for number, member in enumerate(every):
        if number == MOST_FILES:
            yield Unreadable("…", f"there are more than {MOST_FILES:,} files: the others were not read")
            return
        yield member


def _files(start: Path) -> Iterator[Path | Unreadable]:
    if not start.is_dir():
        yield start
        return
    faults: list[OSError] = []
    for folder, folders, names in os.walk(start, onerror=faults.append):
        if folder.count(os.sep) - str(start).count(os.sep) >= FOLDERS and folders:
            yield Unreadable(clean(folder)[:1000], f"more than {FOLDERS} folders deep")
            folders.clear()
        folders.sort()
        yield from (Path(folder, name) for name in sorted(names))
    for fault in faults:
        yield Unreadable(clean(str(fault.filename))[:1000], fault.strerror or str(fault))


def _opened(path: Path | Unreadable, advance: Callable[[int], None]) -> Iterator[Member | Unreadable]:
    if isinstance(path, Unreadable):
        yield path
        return
    name = clean(str(path))
    try:
        if not path.is_file():
            yield Unreadable(name, "no regular file" if path.exists() else "there is no such file")
            return
        with path.open("rb") as disk:
            status = os.fstat(disk.fileno())
            file = Member(name, b"", status.st_mtime, disk, Allowance(status.st_size), advance)
            yield from _unpacked(file, 0)
    except _DAMAGED as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        yield Unreadable(name, clean(why)[:300])


def _unpacked(file: Member, depth: int) -> Iterator[Member]:
    """A stream as what it is: an archive's members, or one file."""
    stream = file.stream
    first = stream.peek(512) if depth < PACKED else b""
    if first.startswith(b"\x1f\x8b"):
        with gzip.GzipFile(fileobj=stream) as plain:
            content = io.BufferedReader(plain)
            yield from _unpacked(_inside(file, file.name.removesuffix(".gz"), file.modified, content), depth + 1)
    elif first[257:262] == b"ustar":
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header) as archive:
            for entry in archive:
                file.allowance.take(entry.size)  # also where it is passed over
                if entry.isreg() and not entry.issparse():
                    content = cast("Stream", archive.extractfile(entry))
                    inside = f"{file.name}/{clean(entry.name)[:1000]}"
                    yield from _unpacked(_inside(file, inside, float(entry.mtime), content), depth + 1)
    else:
        with suppress(*_DAMAGED):  # less of what is damaged: who reads on learns so
            while len(file.head) < HEAD and (more := stream.read1(HEAD - len(file.head))):
                file.head += more
        yield file


def _inside(file: Member, name: str, modified: float, stream: Stream) -> Member:
    return Member(name, b"", modified, stream, file.allowance, file.advance)


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
