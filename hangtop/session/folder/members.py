"""The files under some paths, as streams: plain, compressed, in archives, in any mix."""

from __future__ import annotations

import bz2
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
from hangtop.session.folder.streams import UTF16, DiskFile, Limit, Limited, Rejoined, TooLargeError, Utf8
from hangtop.session.folder.tars import files_of

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


COMPRESSED: tuple[tuple[bytes, str, Callable[[BinaryIO], object]], ...] = (
    (b"\x1f\x8b", ".gz", lambda raw: gzip.GzipFile(fileobj=raw)),
    (
        b"\x28\xb5\x2f\xfd",
        ".zst",
        lambda raw: zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True),
    ),
    (b"\xfd7zXZ\x00", ".xz", lzma.LZMAFile),
    (b"BZh", ".bz2", bz2.BZ2File),
    *((mark, "", Utf8) for mark in UTF16),
)
"""First bytes, ending of the name, and the reader of each compression; and of texts of two bytes a character."""


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


def _opened(path: Path, advance: Callable[[int], None]) -> Iterator[Member | Unreadable]:
    if not path.is_file():
        yield Unreadable(clean(str(path)), "no regular file")
        return
    try:
        with path.open("rb", buffering=0) as file:
            disk, status = DiskFile(file, advance), os.fstat(file.fileno())
            stream = cast("BinaryIO", io.BufferedReader(disk, CHUNK))
            yield from _stream(clean(str(path)), stream, status.st_mtime, Limit(status.st_size), disk=disk)
    except _DAMAGED as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        yield Unreadable(clean(str(path)), clean(why)[:300])


def _stream(
    name: str,
    stream: BinaryIO,
    modified: float | None,
    limit: Limit,
    *,
    disk: DiskFile | None = None,
    depth: int = 0,
) -> Iterator[Member | Unreadable]:
    """A stream as what it is: an archive's members, or one file. ``disk`` is what it reads, if that is a file."""
    head = stream.read(HEAD)
    for magic, ending, opener in COMPRESSED:
        if head.startswith(magic) and depth < 3:
            with _limited(opener(_rejoined(head, stream)), limit) as plain:
                yield from _stream(name.removesuffix(ending), plain, modified, limit, depth=depth + 1)
            return
    if head[257:262] == b"ustar":
        yield from _tar(name, _rejoined(head, stream), limit, depth)
    elif head.startswith(b"PK\x03\x04") and disk is not None:
        stream.seek(0)
        yield from _zip(name, stream, limit, depth)
    else:
        if disk is not None:
            disk.skips_holes = True
        yield Member(name, head, modified, stream)


def _limited(stream: object, limit: Limit) -> AbstractContextManager[BinaryIO]:
    return closing(cast("BinaryIO", Limited(cast("BinaryIO", stream), limit)))


def _rejoined(head: bytes, stream: BinaryIO) -> BinaryIO:
    return cast("BinaryIO", io.BufferedReader(Rejoined(head, stream)))


def _inside(archive: str, name: str) -> str:
    """Name of a member: the archive's and its own, which may be anything."""
    return f"{archive}/{clean(name)[:1000]}"


def _tar(name: str, stream: BinaryIO, limit: Limit, depth: int) -> Iterator[Member | Unreadable]:
    for inside, modified, file in files_of(stream):
        yield from _stream(_inside(name, inside), file, modified, limit, depth=depth + 1)


def _zip(name: str, stream: BinaryIO, limit: Limit, depth: int) -> Iterator[Member | Unreadable]:
    with zipfile.ZipFile(stream) as archive:
        for entry in archive.infolist():
            if entry.is_dir():
                continue
            with _limited(archive.open(entry), limit) as file:
                yield from _stream(_inside(name, entry.filename), file, None, limit, depth=depth + 1)
