"""Files of a tar as it streams by, with bounded headers; of sparse files what is there, without their holes.

Formats: POSIX.1-2017, pax; GNU tar's manual, "Basic Tar Format" and "Storing Sparse Files".
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from typing import BinaryIO, Self, cast

from hangtop.session.folder.streams import Stream

LARGEST_HEADER = 1 << 20
"""Bytes of one header of a tar that comes before a member: its long name, or what pax adds."""
LARGEST_HEADERS = 4 << 20
"""Bytes of all that comes before one member: lists of the parts of sparse files are as long as they like to be."""

_ANNOUNCING = (
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK,
)  # fmt: skip
"""Types of headers that the library reads whole."""


def files_of(stream: BinaryIO) -> Iterator[tuple[str, float, BinaryIO]]:
    """Name, time of change and content of each file; a content can be read until the next one is asked for.

    Raises what :mod:`tarfile` raises on damage, and :class:`tarfile.ReadError` where headers are too long.
    """
    headers = _Headers(stream)
    with tarfile.open(fileobj=headers, mode="r|", tarinfo=_Header) as archive:
        while True:
            headers.limit(archive.offset)
            entry = archive.next()
            headers.limit(None)
            if entry is None:
                return
            # a list that grows by every member would be all that is left of a tar of millions
            archive.members = []  # type: ignore[attr-defined]
            file = archive.extractfile(entry) if entry.isfile() else None
            if file is not None:
                content, parts = cast("io.BufferedReader", file), cast("list[tuple[int, int]] | None", entry.sparse)
                # the buffer asks whether the tar may be sought in; the reader beneath it goes on in it
                there = content if parts is None else _Parts(cast("BinaryIO", content.raw), parts)
                yield entry.name, float(entry.mtime), cast("BinaryIO", there)


class _Header(tarfile.TarInfo):
    """A header that is refused when the library would read gigabytes of it into memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Read a header. Raises :class:`tarfile.ReadError` for one that announces too much."""
        made = super().frombuf(buf, encoding, errors)
        if made.type in _ANNOUNCING and made.size > LARGEST_HEADER:
            raise tarfile.ReadError(f"a header of {made.size:,} bytes")
        return made


class _Headers(Stream):
    """The tar's bytes, of which only so many may be read while the library looks for the next member."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(stream)
        self._read = 0
        self._most: int | None = LARGEST_HEADERS

    def limit(self, begins: int | None) -> None:
        """From now on headers are read that begin at this byte; None: a file's content."""
        self._most = None if begins is None else begins + LARGEST_HEADERS

    def some(self, size: int) -> bytes:
        """Read on. Raises :class:`tarfile.ReadError` when headers do not end."""
        data = self._stream.read(size)
        self._read += len(data)
        if self._most is not None and self._read > self._most:
            raise tarfile.ReadError(f"headers of more than {LARGEST_HEADERS:,} bytes before one file")
        return data


class _Parts(Stream):
    """What there is of a sparse file, its holes left out: they may be terabytes, and nobody wrote them."""

    def __init__(self, file: BinaryIO, parts: list[tuple[int, int]]) -> None:
        super().__init__(file)
        self._parts = iter(parts)
        self._left = 0

    def some(self, size: int) -> bytes:
        """Read on in this part, or the next."""
        while self._left <= 0:
            start, self._left = next(self._parts, (-1, 0))
            if start < 0:
                return b""
            self._stream.seek(start)
        data = self._stream.read(min(size, self._left))
        self._left = self._left - len(data) if data else 0
        return data
