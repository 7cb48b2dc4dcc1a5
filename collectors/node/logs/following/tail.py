"""One file, followed like ``tail -F``: through rotation, truncation and its coming into being later."""

from __future__ import annotations

import errno
import os
from typing import Iterator, List, NamedTuple, Optional, Tuple

from collectors.node.files import named_file, opened, regular

CHUNK = 256 << 10
"""Bytes of one read."""


class Chunk(NamedTuple):
    """Bytes that came. ``fresh`` is True when they begin a file: its first ones, or after rotation or truncation."""

    data: bytes
    fresh: bool


class Tail:
    """Reads what is appended to a path.

    ``whole`` is the largest size of a file that is read from its beginning; of a larger one only the last ``end``
    bytes are. ``start`` is where to begin instead, in a file that was read before under another name. ``uid`` is the
    user whose process named the path: root reads nothing for that user that the user could not.
    """

    def __init__(self, path: str, whole: int, end: int, start: Optional[int] = None, uid: Optional[int] = None) -> None:
        self.path = path
        self.size = 0
        self.modified: Optional[float] = None
        self.why = ""
        """Why it cannot be read; empty while it can."""
        self.skipped = 0
        """Bytes left out so far."""
        self.left: List[Tuple[int, int, int]] = []
        """(device, inode, offset) of files that were rotated away: how far they were read."""
        self._start = start
        self._uid = uid
        self._whole = whole
        self._end = end
        self._file = -1
        self.inode = (0, 0)
        self._offset = 0
        self._fresh = True
        self._first = True

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
            self._begin(0)
        if self._offset < self.size:
            return
        try:
            there = os.stat(self.path)
        except OSError:
            return
        # what is no file has no lines: who writes has the one in hand still, as when the name is gone
        if regular(there) and (there.st_dev, there.st_ino) != self.inode:
            self.left.append((*self.inode, self._offset))
            self.close()
            self._open()

    def read(self) -> Iterator[Chunk]:
        """What is there, in chunks; stop asking when enough was read."""
        while self.behind:
            try:
                data = os.pread(self._file, min(CHUNK, self.behind), self._offset)
            except OSError as error:
                self.why = error.strerror or str(error)
                if error.errno == errno.ESTALE:
                    self.close()
                return
            if not data:
                return
            self._offset += len(data)
            fresh, self._fresh = self._fresh, False
            yield Chunk(data, fresh)

    def skip(self, keep: int) -> int:
        """Leave out all but the last ``keep`` bytes; how many were left out."""
        out = max(0, self.behind - keep)
        self._offset += out
        self.skipped += out
        return out

    def close(self) -> None:
        """Let go of the file."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def opened(self) -> int:
        """Descriptor of the file that the path names now. Raises :class:`OSError`."""
        return opened(self.path) if self._uid is None else named_file(self.path, self._uid)

    def _open(self) -> bool:
        try:
            self._file = self.opened()
        except OSError as error:
            self.why = error.strerror or str(error)
            return False
        status = os.fstat(self._file)
        self.why = ""
        self.inode = (status.st_dev, status.st_ino)
        self.size, self.modified = status.st_size, status.st_mtime
        if self._start is not None:
            self._offset, self._start = self._start, None
        else:
            self._begin(0 if not self._first or self.size <= self._whole else self.size - self._end)
        self._first = False
        return True

    def _begin(self, offset: int) -> None:
        self._offset = offset
        self.skipped += offset
        self._fresh = True
