"""The line of the job's code that made a check, and ranks in words."""

from __future__ import annotations

import os
import sys
from typing import List, Sequence


def place_in_code() -> str:
    """``train.py:88``: the innermost line that is neither ours nor torch's."""
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to one's own frames
    while frame is not None:
        file = frame.f_code.co_filename
        if not any(part in file for part in ("/hangtop/inside/", "/torch/", "contextlib.py", "<frozen")):
            return "%s:%d" % (os.path.basename(file), frame.f_lineno)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "?"


def ranks_text(ranks: Sequence[int]) -> str:
    """``rank 3``, ``ranks 0-2,5``."""
    parts: List[str] = []
    ordered = sorted(set(ranks))
    start = 0
    for place, rank in enumerate(ordered):
        if place + 1 < len(ordered) and ordered[place + 1] == rank + 1:
            continue
        parts.append(str(rank) if ordered[start] == rank else "%d-%d" % (ordered[start], rank))
        start = place + 1
    return ("rank " if len(ordered) == 1 else "ranks ") + ",".join(parts)
