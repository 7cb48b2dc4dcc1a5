"""The table that the programs of NVIDIA's nccl-tests print (``all_reduce_perf`` and its sisters).

Its columns are told where rows are read (``collectors/node/logs/nccl_tests.py``). Other processes may write between
the lines: what is no row is left out.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from collectors.node.logs.nccl_tests import BandwidthRow, number
from collectors.node.logs.nccl_tests import row as row_of

__all__ = ["BandwidthRow", "NcclTestsTable", "parse"]

_RANK = re.compile(r"#?\s{0,9}Rank\s{1,9}(\d{1,6})\s.{0,200}?\bon\s{1,9}\S{1,255}\s{1,9}device\b")
_AVERAGE = re.compile(r"#?\s*Avg bus bandwidth\s*:\s*(\S+)")
_VERSION = re.compile(r"#\s*nccl-tests version (\S+)")


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
        elif (row := row_of(words, counted)) is not None:
            rows.append(row)
        elif rank := _RANK.match(line.lstrip()):
            ranks.add(int(rank.group(1)))
        elif said := _AVERAGE.match(line.lstrip()):
            average = number(said.group(1))
        elif named := _VERSION.match(line):
            version = named.group(1)
    return NcclTestsTable(rows, len(ranks), average, version)
