"""Text of two bytes a character, as PowerShell's redirections write it, read as UTF-8."""

from __future__ import annotations

import codecs
import io
from typing import BinaryIO, cast

MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""How such a file begins."""


class _Narrowed(io.RawIOBase):
    """The stream in UTF-8; what is no text in it becomes a question mark of its own."""

    def __init__(self, raw: BinaryIO) -> None:
        super().__init__()
        self._raw = raw
        self._decoder = codecs.getincrementaldecoder("utf-16")("replace")
        self._left = b""

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """At most so many bytes; empty at the end."""
        while not self._left:
            wide = self._raw.read(max(size, 4096))
            self._left = self._decoder.decode(wide, final=not wide).encode("utf-8", "replace")
            if not wide:
                break
        size = size if size >= 0 else len(self._left)
        given, self._left = self._left[:size], self._left[size:]
        return given

    def close(self) -> None:
        """Close the stream beneath."""
        self._raw.close()
        super().close()


def narrowed(raw: BinaryIO) -> BinaryIO:
    """A stream that begins with one of the marks, as UTF-8 without it."""
    return cast("BinaryIO", _Narrowed(raw))
