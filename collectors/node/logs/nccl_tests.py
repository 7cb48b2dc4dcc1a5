"""The table that NVIDIA's nccl-tests (``all_reduce_perf`` and its sisters) print.

Columns since 2.0 (``src/common.cu`` of NVIDIA/nccl-tests): size, count, type, then redop and root (not for every
program and version), then time, algbw, busbw and ``#wrong`` twice, out of place and in place. Before 2.13 the last of
the four was ``error``, a difference and no count.
"""

from __future__ import annotations

from typing import List, NamedTuple, Optional

from collectors.node import late_re as re
from collectors.node.logs.rule import Data, ParsedEvent

COLUMNS = 8
"""At the end of each row: time, algbw, busbw and wrong, out of place and in place."""
_NUMBER = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,4})?$")
_DIGITS = re.compile(r"\d{1,18}$")
_AVERAGE = re.compile(r"#?\s*Avg bus bandwidth\s*:\s*(\S+)")
_BOUNDS = re.compile(r"#?\s*Out of bounds values\s*:\s*(\d{1,12})\s+(\w+)")
HEADER = re.compile(r"^\s*#\s(?=.*\bbusbw\b).*\bsize\b")


class BandwidthRow(NamedTuple):
    """One size. Bandwidths are GB/s (1e9 bytes)."""

    size: int
    """Bytes."""
    seconds: float
    """Out of place, as are the bandwidths."""
    algbw: float
    busbw: float
    wrong: Optional[int]
    """Wrong elements in place and out of place; None where they were not counted."""


def row(words: List[str], counted: bool) -> Optional[BandwidthRow]:
    """The row that a line's words are; None for any other line. ``counted``: the table has ``#wrong``."""
    if len(words) < 3 + COLUMNS or not all(map(_DIGITS.match, words[:2])):
        return None
    time, algorithm, bus, wrong, _, _, _, again = words[-COLUMNS:]
    figures = [number(word) for word in (time, algorithm, bus)]
    if any(figure is None or figure < 0 for figure in figures):
        return None
    counts = [int(word) for word in (wrong, again) if _DIGITS.match(word)] if counted else []
    return BandwidthRow(
        int(words[0]), (figures[0] or 0.0) / 1e6, figures[1] or 0.0, figures[2] or 0.0, sum(counts) if counts else None
    )


def number(word: str) -> Optional[float]:
    """A finite number, or None: ``N/A``, ``inf``, a word of another line."""
    return float(word) if _NUMBER.match(word) and float(word) < 1e15 else None


class Table:
    """The rows of one table, and the lines below it; what other processes write between them is theirs."""

    STRANGERS = 2000
    """Lines without a row after which the table is over."""

    def __init__(self, header: str) -> None:
        self.over = False
        self.text = header
        self._counted = "#wrong" in header
        self._rows: List[BandwidthRow] = []
        self._average: Optional[float] = None
        self._bad: Optional[int] = None
        self._strangers = 0

    def take(self, text: str) -> bool:
        """Whether the line belongs to the table."""
        found = row(text.split(), self._counted) if text[:200].strip()[:1].isdigit() else None
        average, bounds = _AVERAGE.match(text.lstrip()), _BOUNDS.match(text.lstrip())
        if found is not None:
            if len(self._rows) < 512:
                self._rows.append(found)
        elif average is not None:
            self._average = number(average.group(1))
            self.over = True
        elif bounds is not None:
            self._bad = int(bounds.group(1)) if bounds.group(2) != "OK" else 0
        elif not text.lstrip().startswith("#"):
            self._strangers += 1
            self.over = self._strangers > self.STRANGERS
            return False
        self._strangers = 0
        if len(self.text) < 3600:
            self.text += "\n" + text
        return True

    def end(self) -> Optional[ParsedEvent]:
        """The event; None for a header without rows."""
        if not self._rows and self._average is None:
            return None
        data: Data = {
            "sizes": [each.size for each in self._rows],
            "busbw": [each.busbw for each in self._rows],
            "wrong": sum(each.wrong or 0 for each in self._rows) or self._bad or 0,
            "whole": self._average is not None,
        }
        if self._average is not None:
            data["average"] = self._average
        return ParsedEvent("nccl_tests.table", data)
