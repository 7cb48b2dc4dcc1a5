"""The table of ``all_reduce_perf`` of NVIDIA's nccl-tests (``src/common.cu`` of NVIDIA/nccl-tests).

Columns: size, count, type, redop, root, then time, algbw, busbw and ``#wrong`` twice, out of place and in place. Other
processes may write between the lines, so lines that are no row are skipped.
"""

from __future__ import annotations

import re

from collectors.samples.probes import ProbeFigure

_NUMBER = r"(\d{1,15}(?:\.\d{0,9})?)"
_ROW = re.compile(
    rf"\s*(\d{{1,18}})\s+\d{{1,18}}(?:\s+[\w-]{{1,20}}){{1,3}}\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}\s+(\d{{1,18}}|N/A)"
    r"(?:\s+[\d.]{1,24}){3}\s+(\d{1,18}|N/A)\s*$"
)


def parse(text: str) -> tuple[list[ProbeFigure], int | None]:
    """Figures of a run's output, even cut off, and the number of wrong elements; None if no element was checked."""
    rows = [row for line in text.splitlines() if (row := _ROW.match(line))]
    figures = [
        ProbeFigure("all_reduce", int(row[1]), float(row[2]) / 1e6, float(row[3]), float(row[4]), []) for row in rows
    ]
    counted = [int(count) for row in rows for count in (row[5], row[6]) if count.isdecimal()]
    return figures, sum(counted) if counted else None
