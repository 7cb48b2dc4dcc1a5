"""One file, followed like ``tail -F``."""

from __future__ import annotations

import os
from typing import Iterator, Optional

from collectors.node.files import named_file, opened

CHUNK = 256 << 10
"""Bytes of one read."""
WHOLE = 8 << 20
"""A file up to this size is read from its beginning, …"""
END = 4 << 20
"""… of a larger one its end."""


class Tail:
    """Reads what is appended to a path: through rotation, truncation, and its coming into being later.

    ``uid`` is the user whose process named the path: root reads nothing for that user that the user could not.
    """

    def __init__(self, path: str, uid: Optional[int] = None) -> None:
        self.path = path
        self.size = 0
        self.modified: Optional[float] = None
        self.inode = (0, 0)
        self.why = ""
        """Why it cannot be read; empty while it can."""
        self.skipped = 0
        """Bytes left out so far."""
        self.fresh = False
        """The next bytes begin a file: after rotation or truncation."""
        self._uid = uid
        self._file = -1
        self._offset = 0

    @property
    def behind(self) -> int:
        """Bytes that are there and not read yet."""
        return max(0, self.size - self._offset)

    def refresh(self) -> None:
        """Look at the file again: its size, and whether it is still the same file."""
        if self._file < 0 and not self._open():
            return
        status = os.fstat(self._file)
        self.size, self.modified = status.st_size, status.st_mtime
        if self.size < self._offset:
            self._offset, self.fresh = 0, True
        if self._offset < self.size:
            return
        try:
            there = os.stat(self.path)
        except OSError:
            return
        if (there.st_dev, there.st_ino) != self.inode:
            self.close()
            self.fresh = self._open()

    def read(self) -> Iterator[bytes]:
        """What is there, in chunks; stop asking when enough was read."""
        while self.behind:
            try:
                data = os.pread(self._file, min(CHUNK, self.behind), self._offset)
            except OSError as error:
                self.why = error.strerror or str(error)
                self.close()
                return
            if not data:
                return
            self._offset += len(data)
            yield data

    def skip(self, keep: int) -> int:
        """Leave out all but the last ``keep`` bytes; how many were left out."""
        out = max(0, self.behind - keep)
        self._offset += out
        self.skipped += out
        return out

    def peek(self, start: int, end: int) -> bytes:
        """Some of its bytes, whatever was read; none where it is not open."""
        try:
            return os.pread(self._file, end - start, start) if self._file >= 0 else b""
        except OSError:
            return b""

    def close(self) -> None:
        """Let go of the file."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _open(self) -> bool:
        try:
            self._file = opened(self.path) if self._uid is None else named_file(self.path, self._uid)
        except OSError as error:
            self.why = error.strerror or str(error)
            return False
        status = os.fstat(self._file)
        inode = (status.st_dev, status.st_ino)
        self.why = ""
        self.size, self.modified = status.st_size, status.st_mtime
        if inode != self.inode:
            is_first = self.inode == (0, 0)
            self.inode, self._offset = inode, 0
            if is_first and self.size > WHOLE:
                self.skip(END)
        return True
