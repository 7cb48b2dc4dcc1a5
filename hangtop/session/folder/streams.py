"""Streams over files that somebody else made: bounded, without holes, with what was read of them put back in front."""

from __future__ import annotations

import codecs
import errno
import io
import os
import re
from collections.abc import Callable
from typing import BinaryIO

LEAST = 4 << 30
"""Bytes that any compressed file may unpack to."""
TIMES = 1000
"""Times its size on disk that a larger file may unpack to: more than any log but one line over and over."""
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""How a text of two bytes a character begins, as PowerShell's redirections write it."""
_HOLE = re.compile(rb"\0{32,}")


class TooLargeError(OSError):
    """More came out of a compressed file than may; the text says so in one line."""


class Limit:
    """Bytes that may come out of one file on disk, through all archives within one another."""

    def __init__(self, size: int) -> None:
        self._most = self._left = max(LEAST, TIMES * size)
        self._size = size

    def take(self, count: int) -> None:
        """So many more bytes have come out. Raises :class:`TooLargeError`."""
        self._left -= count
        if self._left < 0:
            raise TooLargeError(f"{self._size:,} bytes swell to more than {self._most:,}: the rest was not read")


class Stream(io.RawIOBase):
    """A stream over another one, read by :meth:`some`; closing it closes the other one, too."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream

    def some(self, size: int) -> bytes:
        """At most so many of the next bytes; empty at the end."""
        return self._stream.read(size)

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: object) -> int:
        """Read the next bytes."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        data = self.some(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close both."""
        self._stream.close()
        super().close()


class Limited(Stream):
    """A stream whose bytes count towards a limit."""

    def __init__(self, stream: BinaryIO, limit: Limit) -> None:
        super().__init__(stream)
        self._limit = limit

    def some(self, size: int) -> bytes:
        """Read on. Raises :class:`TooLargeError`."""
        data = self._stream.read(size)
        self._limit.take(len(data))
        return data


class Rejoined(Stream):
    """A stream with the bytes that were read from it put back in front; it does not close the other one."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        super().__init__(stream)
        self._head = head

    def some(self, size: int) -> bytes:
        """The head, then what follows."""
        if not self._head:
            return self._stream.read(size)
        data, self._head = self._head[:size], self._head[size:]
        return data

    def close(self) -> None:
        """Close this one alone."""
        io.RawIOBase.close(self)


class Utf8(Stream):
    """A text of two bytes a character, as UTF-8 without its mark."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(stream)
        self._decoder = codecs.getincrementaldecoder("utf-16")("replace")
        self._left = b""

    def some(self, size: int) -> bytes:
        """Decode on."""
        while not self._left:
            wide = self._stream.read(max(size, 4096))
            self._left = self._decoder.decode(wide, final=not wide).encode("utf-8", "replace")
            if not wide:
                break
        data, self._left = self._left[:size], self._left[size:]
        return data


class DiskFile(io.RawIOBase):
    """A file on disk that tells how many bytes were read from it."""

    def __init__(self, file: io.FileIO, advance: Callable[[int], None]) -> None:
        super().__init__()
        self._file = file
        self._advance = advance
        self.skips_holes = False
        """Whether what nobody wrote is left out: a file of a few blocks may be terabytes long."""

    def readable(self) -> bool:
        """Always."""
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
        if self.skips_holes:
            self._to_data()
        count = self._file.readinto(buffer) or 0  # type: ignore[arg-type]
        self._advance(count)
        return count

    def _to_data(self) -> None:
        """Go to the next byte that was written. Systems without such a call have no holes that cost anything."""
        try:
            os.lseek(self._file.fileno(), self._file.tell(), os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole is left
                self._file.seek(0, os.SEEK_END)
            elif error.errno != errno.EINVAL:
                raise


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
