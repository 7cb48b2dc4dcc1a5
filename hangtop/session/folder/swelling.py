"""What comes out of a file on disk, bounded by what it holds: a few kilobytes may say that they are terabytes."""

from __future__ import annotations

import io
from typing import BinaryIO, cast

LEAST = 4 << 30
"""Bytes that any compressed file may swell to."""
TIMES = 1000
"""Times its size on disk that a larger one may: more than any log but one line over and over."""


class SwollenError(OSError):
    """More came out than may; the text says so in one line."""


class Allowance:
    """Bytes that may come out of one file on disk, through all that is packed within one another in it."""

    def __init__(self, size: int) -> None:
        self._most = self._left = max(LEAST, TIMES * size)
        self._size = size

    def take(self, count: int) -> None:
        """So many more bytes have come out. Raises :class:`SwollenError`."""
        self._left -= count
        if self._left < 0:
            raise SwollenError(f"{self._size:,} bytes swell to more than {self._most:,}: the rest was not read")

    def over(self, stream: BinaryIO) -> BinaryIO:
        """The stream, its bytes taken off this allowance."""
        return cast("BinaryIO", _Bounded(stream, self))


class _Bounded(io.RawIOBase):
    """A stream whose bytes are counted as they are read."""

    def __init__(self, stream: BinaryIO, allowance: Allowance) -> None:
        self._stream = stream
        self._allowance = allowance

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read the next bytes. Raises :class:`SwollenError`."""
        data = self._stream.read(size)
        self._allowance.take(len(data))
        return data

    def close(self) -> None:
        """Close both."""
        self._stream.close()
        super().close()
