"""The files under some paths, as streams: plain, gzip, or in a tar archive (also compressed or nested)."""

from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import sys
import tarfile
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

from collectors.fleet.clean import clean
from collectors.formats import BadFormat

CHUNK = 256 << 10
"""Bytes of one read."""
HEAD = 1 << 16
"""Bytes from which a file's kind is recognised."""
PACKED = 3
"""Levels of nested archives that are unpacked."""
LARGEST, LARGEST_WHOLE = 16 << 30, 64 << 20
"""Uncompressed bytes read of one file as a stream, and of a file that is read as a whole."""

PIPED = Path("-")
"""Standard input."""
_DAMAGED = (
    OSError, EOFError, zlib.error, tarfile.TarError, struct.error, ValueError, LookupError, TypeError, AttributeError,
    ArithmeticError, MemoryError,
)  # fmt: skip
"""What the libraries raise on damaged archives: documented exceptions, and others found by fuzzing."""
Stream: TypeAlias = "io.BufferedReader[Any]"


@dataclass(slots=True)
class Member:
    """One file to read. ``head`` is its first bytes; :meth:`chunks` yields them again, then the rest."""

    name: str
    """Path, and the path inside the archive: ``logs.tar.gz/node1/rank0.log``."""
    stream: Stream
    modified: float = 0.0
    head: bytes = b""
    size: int = 0
    """Uncompressed bytes yielded so far."""
    damage: str = ""
    """Why its end, or the whole file, could not be read."""

    def chunks(self) -> Iterator[bytes]:
        """All bytes, in order, a chunk at a time."""
        chunk = self.head
        while chunk:
            self.size += len(chunk)
            yield chunk
            if self.size >= LARGEST:
                self.damage = f"the rest of more than {LARGEST:,} bytes was not read"
                return
            try:
                chunk = self.stream.read1(CHUNK)
            except _DAMAGED as error:
                self.damage = f"damaged: {clean(str(error))[:300]}"
                return

    def whole(self) -> bytes:
        """All bytes. Raises :class:`BadFormat` if there are more than :data:`LARGEST_WHOLE`."""
        parts: list[bytes] = []
        for chunk in self.chunks():
            parts.append(chunk)
            if self.size > LARGEST_WHOLE:
                raise BadFormat(f"larger than {LARGEST_WHOLE >> 20} MiB")
        return b"".join(parts)


def members(paths: Sequence[Path]) -> Iterator[Member]:
    """Every file under the paths, in order of their names; an unreadable file is empty, with its ``damage``."""
    for path in paths:
        for file in _files(path):
            yield from _opened(file)


def _unread(name: str, why: str) -> Member:
    return Member(name, io.BufferedReader(io.BytesIO()), damage=why)


def _files(start: Path) -> Iterator[Path]:
    if not start.is_dir():
        yield start
    closed: list[OSError] = []
    for folder, folders, names in os.walk(start, onerror=closed.append):
        folders.sort()
        yield from (Path(folder, name) for name in sorted(names))
    yield from (Path(str(fault.filename)) for fault in closed if start.is_dir())


def _opened(path: Path) -> Iterator[Member]:
    name = clean(str(path))[:1000]
    try:
        if path == PIPED:
            yield from _unpacked(Member("standard-input", cast("Stream", sys.stdin.buffer), time.time()))
            return
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            yield _unread(name, "no regular file, or a folder that may not be read")
            return
        with path.open("rb") as disk:
            yield from _unpacked(Member(name, disk, status.st_mtime))
    except _DAMAGED as error:
        yield _unread(name, clean(getattr(error, "strerror", None) or str(error) or type(error).__name__)[:300])


def _unpacked(file: Member, depth: int = 0) -> Iterator[Member]:
    """The members of an archive, or the file itself."""
    first = file.stream.peek(512) if depth < PACKED else b""
    if first.startswith(b"\x1f\x8b"):
        with gzip.GzipFile(fileobj=file.stream) as plain:
            inside = Member(file.name.removesuffix(".gz"), io.BufferedReader(plain), file.modified)
            yield from _unpacked(inside, depth + 1)
    elif first[257:262] == b"ustar":
        with tarfile.open(fileobj=file.stream, mode="r|") as archive:
            for entry in archive:
                if entry.isreg() and not entry.issparse():
                    stream = cast("Stream", archive.extractfile(entry))
                    name = f"{file.name}/{clean(entry.name)[:1000]}"
                    yield from _unpacked(Member(name, stream, float(entry.mtime)), depth + 1)
    else:
        with suppress(*_DAMAGED):  # a damaged file has a shorter head; the next read reports the damage
            while len(file.head) < HEAD and (more := file.stream.read1(HEAD - len(file.head))):
                file.head += more
        yield file


def is_binary(head: bytes) -> bool:
    """Whether a file with this beginning is no text: it has zeros, or many bytes that no text has."""
    sample = head[:4096]
    odd = sum(byte < 9 or 13 < byte < 27 or 27 < byte < 32 for byte in sample)
    return sample.count(0) > len(sample) // 64 or odd * 5 > len(sample)
