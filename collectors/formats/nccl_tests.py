"""The table that the programs of NVIDIA's nccl-tests print (``all_reduce_perf`` and its sisters).

Columns since 2.0 (``src/common.cu`` of NVIDIA/nccl-tests): size, count, type, then redop and root (not for every
program and version), then time, algbw, busbw and ``#wrong`` twice, out of place and in place. Before 2.13 the last of
the four was ``error``, a difference and no count. Other processes may write between the lines: what is no row is left
out.
"""

from __future__ import annotations

import re
from typing import NamedTuple

COLUMNS = 8
"""At the end of each row: time, algbw, busbw and wrong, out of place and in place."""
_NUMBER = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,4})?$")
_DIGITS = re.compile(r"\d{1,18}$")
_RANK = re.compile(r"#?\s{0,9}Rank\s{1,9}(\d{1,6})\s.{0,200}?\bon\s{1,9}\S{1,255}\s{1,9}device\b")
_AVERAGE = re.compile(r"#?\s*Avg bus bandwidth\s*:\s*(\S+)")
_VERSION = re.compile(r"#\s*nccl-tests version (\S+)")


class BandwidthRow(NamedTuple):
    """One size. Bandwidths are GB/s (1e9 bytes)."""

    size: int
    """Bytes."""
    seconds: float
    """Out of place, as are the bandwidths."""
    algbw: float
    busbw: float
    wrong: int | None
    """Wrong elements in place and out of place; None where they were not counted."""


def _row(words: list[str], counted: bool) -> BandwidthRow | None:
    """The row that a line's words are; None for any other line. ``counted``: the table has ``#wrong``."""
    if len(words) < 3 + COLUMNS or not all(map(_DIGITS.match, words[:2])):
        return None
    time, algorithm, bus, wrong, _, _, _, again = words[-COLUMNS:]
    figures = [_number(word) for word in (time, algorithm, bus)]
    if any(figure is None or figure < 0 for figure in figures):
        return None
    counts = [int(word) for word in (wrong, again) if _DIGITS.match(word)] if counted else []
    return BandwidthRow(
        int(words[0]), (figures[0] or 0.0) / 1e6, figures[1] or 0.0, figures[2] or 0.0, sum(counts) if counts else None
    )


def _number(word: str) -> float | None:
    """A finite number, or None: ``N/A``, ``inf``, a word of another line."""
    return float(word) if _NUMBER.match(word) and float(word) < 1e15 else None


class NcclTestsTable(NamedTuple):
    """What one run printed."""

    rows: list[BandwidthRow]
    ranks: int
    """GPUs that took part; 0 when it did not say."""
    average: float | None
    """Average bus bandwidth over all sizes."""
    version: str


def parse(text: str) -> NcclTestsTable:
    """Read a run's output, whole or cut off. Never raises: what is no row is no row."""
    rows: list[BandwidthRow] = []
    ranks: set[int] = set()
    average: float | None = None
    version = ""
    counted = True
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["#"] and "size" in words and "busbw" in words:
            counted = "#wrong" in words
        elif (row := _row(words, counted)) is not None:
            rows.append(row)
        elif rank := _RANK.match(line.lstrip()):
            ranks.add(int(rank.group(1)))
        elif said := _AVERAGE.match(line.lstrip()):
            average = _number(said.group(1))
        elif named := _VERSION.match(line):
            version = named.group(1)
    return NcclTestsTable(rows, len(ranks), average, version)
