"""Where a rank is: in its code, on which machine, at which step; and ranks in words."""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, List, Sequence

from collectors.samples.page import PHASE_NAMES
from hangtop.inside.steps import telling


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


def position() -> Dict[str, Any]:
    """Where this rank is: host, process, step and phase."""
    page = telling.page
    return {
        "host": os.uname().nodename,
        "pid": os.getpid(),
        "step": None if page is None else page.last_step,
        "phase": "" if page is None else PHASE_NAMES[page.phase_now],
    }


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
