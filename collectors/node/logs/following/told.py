"""What was last said of a followed file, so that it is said anew only when that is worth it."""

from __future__ import annotations

import os
from typing import List, Tuple

from collectors.samples.logs import LogFile

SIZE_EVERY = 4.0
"""Seconds between two words on the size of a file that grows."""
NOWHERE = (0, 0)
"""Device and inode of what is not there."""


class ToldFile:
    """What was last said of a file, and who it is."""

    __slots__ = ("at", "checked", "files", "identity", "inode", "size", "words")

    def __init__(self) -> None:
        self.files: List[LogFile] = []
        self.identity = ""
        self.checked = self.at = float("-inf")
        self.inode = NOWHERE
        self.size = -1
        """Its size in the last look."""
        self.words: Tuple[object, ...] = ()

    def due(self, size: int, words: Tuple[object, ...], now: float) -> bool:
        """Whether to say it anew: what changed, a size that grows now and then, and one that has come to rest."""
        rests, self.size = size == self.size, size
        known, self.words = words == self.words, words
        if known and (size == self.files[0].size or not (rests or not 0 <= now - self.at < SIZE_EVERY)):
            return False
        self.at = now
        return True


def inode_of(path: str) -> Tuple[int, int]:
    """Device and inode of a path; :data:`NOWHERE` where it cannot be looked at."""
    try:
        status = os.stat(path)
    except OSError:
        return NOWHERE
    return status.st_dev, status.st_ino
