"""The files under some paths, as streams: plain, compressed, in archives, in any mix."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from collectors.fleet.clean import clean
from hangtop.session.folder.swelling import Allowance, SwollenError
from hangtop.session.folder.tars import files_of
from hangtop.session.folder.wide import MARKS, narrowed

CHUNK = 256 << 10
"""Bytes of one read."""
HEAD = 1 << 16
"""Bytes by which a file is recognised."""

DEPTH = 64
"""Folders within one another that are gone into."""
MOST_FILES = 50_000
"""Files, and members of archives, that are read at all."""

_DAMAGED = (
    OSError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError, tarfile.TarError, zipfile.BadZipFile,
    RuntimeError, NotImplementedError,
    ValueError, LookupError, struct.error, TypeError, AttributeError, AssertionError, ArithmeticError, MemoryError,
)  # fmt: skip
"""What the libraries raise on damaged archives: what they document, and below that what mutated ones have shown."""


def _gzip(raw: BinaryIO) -> BinaryIO:
    return cast("BinaryIO", gzip.GzipFile(fileobj=raw))


def _zstd(raw: BinaryIO) -> BinaryIO:
    return cast("BinaryIO", zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True))


def _xz(raw: BinaryIO) -> BinaryIO:
    return cast("BinaryIO", lzma.LZMAFile(raw))


def _bzip2(raw: BinaryIO) -> BinaryIO:
    return cast("BinaryIO", bz2.BZ2File(raw))


COMPRESSED: tuple[tuple[bytes, str, Callable[[BinaryIO], BinaryIO]], ...] = (
    (b"\x1f\x8b", ".gz", _gzip),
    (b"\x28\xb5\x2f\xfd", ".zst", _zstd),
    (b"\xfd7zXZ\x00", ".xz", _xz),
    (b"BZh", ".bz2", _bzip2),
    *((mark, "", narrowed) for mark in MARKS),
)
"""First bytes, ending of the name, and the reader of each compression; and of wide text."""


@dataclass(slots=True)
class Member:
    """One file to read. ``head`` are its first bytes; :meth:`chunks` gives them again, and the rest."""

    name: str
    """Path, and the path inside the archive: ``logs.tar.zst/node1/rank0.log``."""
    head: bytes
    modified: float | None
    stream: BinaryIO
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
                chunk = self.stream.read(CHUNK)
            except SwollenError as error:
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
    for number, member in enumerate(_members(paths, advance)):
        if number == MOST_FILES:
            yield Unreadable("…", f"there are more than {MOST_FILES:,} files: the others were not read")
            return
        yield member


def _members(paths: Sequence[Path], advance: Callable[[int], None]) -> Iterator[Member | Unreadable]:
    for path in paths:
        for file in _files(path):
            if isinstance(file, Unreadable):
                yield file
                continue
            yield from _opened(file, advance)


def _files(start: Path) -> Iterator[Path | Unreadable]:
    waiting = [(start, 0)]
    while waiting:
        path, depth = waiting.pop()
        try:
            if not path.exists():
                yield Unreadable(clean(str(path)), "there is no such file")
                continue
            if not path.is_dir():
                yield path
                continue
            if depth > DEPTH:
                yield Unreadable(clean(str(path)), f"more than {DEPTH} folders deep")
                continue
            inside = sorted(path.iterdir(), reverse=True)
            # a link to a folder is a loop, or what is found elsewhere
            waiting += [(entry, depth + 1) for entry in inside if not (entry.is_symlink() and entry.is_dir())]
        except OSError as error:
            yield Unreadable(clean(str(path))[:1000], error.strerror or str(error))


class _Counted(io.RawIOBase):
    """A file that tells how many bytes were read from it."""

    def __init__(self, file: BinaryIO, advance: Callable[[int], None]) -> None:
        self._file = file
        self._advance = advance
        self._skips = False

    def skip_holes(self) -> None:
        """From now on leave out what nobody wrote: a file of a few blocks may be terabytes long."""
        self._skips = True

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """As the file itself."""
        return self._file.seekable()

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move in the file."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Position in the file."""
        return self._file.tell()

    def readinto(self, buffer: object) -> int:
        """Read the next bytes."""
        if self._skips:
            self._to_data()
        read = self._file.readinto(buffer)  # type: ignore[attr-defined]
        self._advance(read)
        return int(read)

    def _to_data(self) -> None:
        """Go to the next byte that is in the file. Systems without such a call have no holes that cost anything."""
        try:
            os.lseek(self._file.fileno(), self._file.tell(), os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole is left
                self._file.seek(0, os.SEEK_END)
            elif error.errno != errno.EINVAL:
                raise


def _opened(path: Path, advance: Callable[[int], None]) -> Iterator[Member | Unreadable]:
    if not path.is_file():
        yield Unreadable(clean(str(path)), "no regular file")
        return
    try:
        with path.open("rb", buffering=0) as file:
            disk, status = _Counted(cast("BinaryIO", file), advance), os.fstat(file.fileno())
            stream = cast("BinaryIO", io.BufferedReader(disk, CHUNK))
            yield from _stream(clean(str(path)), stream, status.st_mtime, Allowance(status.st_size), disk=disk)
    except _DAMAGED as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        yield Unreadable(clean(str(path)), clean(why)[:300])


def _stream(
    name: str,
    stream: BinaryIO,
    modified: float | None,
    allowance: Allowance,
    *,
    disk: _Counted | None = None,
    depth: int = 0,
) -> Iterator[Member | Unreadable]:
    """A stream as what it is: an archive's members, or one file. ``disk`` is what it reads, if that is a file."""
    head = stream.read(HEAD)
    for magic, ending, opener in COMPRESSED:
        if head.startswith(magic) and depth < 3:
            with _unpacked(opener(_rejoined(head, stream)), allowance) as plain:
                yield from _stream(name.removesuffix(ending), plain, modified, allowance, depth=depth + 1)
            return
    if head[257:262] == b"ustar":
        yield from _tar(name, _rejoined(head, stream), allowance, depth)
    elif head.startswith(b"PK\x03\x04") and disk is not None:
        stream.seek(0)
        yield from _zip(name, stream, allowance, depth)
    else:
        if disk is not None:
            disk.skip_holes()
        yield Member(name, head, modified, stream)


def _unpacked(stream: BinaryIO, allowance: Allowance) -> AbstractContextManager[BinaryIO]:
    return closing(allowance.over(stream))


def _rejoined(head: bytes, stream: BinaryIO) -> BinaryIO:
    return cast("BinaryIO", io.BufferedReader(cast("io.RawIOBase", _Joined(head, stream))))


class _Joined(io.RawIOBase):
    """A stream with the bytes that were read from it put back in front."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head = memoryview(head)
        self._stream = stream

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: object) -> int:
        """Read the next bytes."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        if self._head:
            count = min(len(view), len(self._head))
            view[:count] = self._head[:count]
            self._head = self._head[count:]
            return count
        data = self._stream.read(len(view))
        view[: len(data)] = data
        return len(data)


def _inside(archive: str, name: str) -> str:
    """Name of a member: the archive's and its own, which may be anything."""
    return f"{archive}/{clean(name)[:1000]}"


def _tar(name: str, stream: BinaryIO, allowance: Allowance, depth: int) -> Iterator[Member | Unreadable]:
    for inside, modified, file in files_of(stream):
        yield from _stream(_inside(name, inside), file, modified, allowance, depth=depth + 1)


def _zip(name: str, stream: BinaryIO, allowance: Allowance, depth: int) -> Iterator[Member | Unreadable]:
    with zipfile.ZipFile(stream) as archive:
        for entry in archive.infolist():
            if entry.is_dir():
                continue
            with _unpacked(cast("BinaryIO", archive.open(entry)), allowance) as file:
                yield from _stream(_inside(name, entry.filename), file, None, allowance, depth=depth + 1)
