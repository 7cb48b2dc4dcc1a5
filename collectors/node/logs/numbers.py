"""Numbers of lines, counted only as far as they are asked for."""

from __future__ import annotations

from typing import List, Optional

from collectors.node import late_re as re

_END = re.compile(rb"\r?\n|\r")


class Numbers:
    """Line numbers of one block, and of the text that is left when some of its lines are taken out.

    Offsets must be asked for in ascending order. A carriage return alone ends a record but no line.
    """

    def __init__(self, block: bytes, first: int) -> None:
        self._block = block
        self._first = first
        self._ends: Optional[List[int]] = None
        if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
            self._ends = _record_ends(block)
        self._kept: Optional[List[int]] = None
        self._at = 0
        self._index = 0

    def keep(self, lines: List[int]) -> None:
        """From now on offsets are those of a text that has only these lines of the block."""
        self._kept = lines

    def of_line(self, index: int) -> int:
        """Number of the block's n-th record."""
        if self._ends is None:
            return self._first + index
        start = self._ends[index - 1] if index > 0 else 0
        return self._first + self._block.count(b"\n", 0, start)

    def of_offset(self, text: bytes, offset: int) -> int:
        """Number of the line that begins at an offset of the text."""
        self._index += text.count(b"\n", self._at, offset)
        self._at = offset
        return self.of_line(self._index if self._kept is None else self._kept[self._index])


def _record_ends(block: bytes) -> List[int]:
    """Offsets after each record's end: LF, CR LF or CR."""
    return [match.end() for match in _END.finditer(block)]
