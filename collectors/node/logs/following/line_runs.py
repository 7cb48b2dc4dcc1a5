"""Raw lines for the screen, parted by the rank that wrote them and by their times."""

from __future__ import annotations

from typing import Dict, Iterator, List, NamedTuple, Optional

from collectors.node import redact
from collectors.node.logs import prefixes

LONGEST_SHOWN = 2000
"""Characters of a line on view."""


class LineRun(NamedTuple):
    """Neighbouring lines of one rank and one time: that in them, or in a line before them."""

    rank: Optional[int]
    at: Optional[float]
    lines: List[str]


def line_runs(
    raw: List[bytes], owner: Optional[int], ranks: Dict[int, int], now: float, *, timed: bool
) -> Iterator[LineRun]:
    """Runs of lines of one rank, by label; ``owner`` is the rank of lines without one. Times only where ``timed``."""
    run: List[str] = []
    current: Optional[int] = owner
    at: Optional[float] = None
    for each in raw:
        whole = each.rstrip(b"\r").rsplit(b"\r", 1)[-1][: 4 * LONGEST_SHOWN]
        first = next(iter(prefixes.records(whole, 0, now)))
        rank = first.stream.rank
        if rank is None and first.stream.local_rank is not None:
            rank = ranks.get(first.stream.local_rank)
        if rank is None:
            rank = owner
        told = prefixes.moment(first, now) if timed else None
        if run and (rank != current or (told is not None and told != at)):
            yield LineRun(current, at, run)
            run = []
        current = rank
        at = at if told is None else told
        run.append(redact.shapes(whole.decode("utf-8", "replace")[:LONGEST_SHOWN]))
    if run:
        yield LineRun(current, at, run)
