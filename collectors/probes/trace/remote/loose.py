"""Events as the standard library decodes them, and the rank that a file's name tells."""

from __future__ import annotations

import json
import re
from typing import Any, List

from collectors.probes.trace.remote.reduction import Reduction
from collectors.samples import RankTrace

_RANK = re.compile(r"(?:^|[^a-zA-Z])rank[-_.= ]?(\d{1,6})(?!\d)", re.IGNORECASE)
_END = re.compile(r"(?:^|[-_.])(\d{1,4})(?:\.pt\.trace|\.trace)?\.json(?:\.gz)?$")


def decode(data: bytes) -> List[Any]:
    """Events of an array of any JSON values. Raises :class:`ValueError`."""
    try:
        events = json.loads(data.decode("utf-8", "replace"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return events if isinstance(events, list) else []


def take(reduction: Reduction, events: List[Any]) -> None:
    """Add decoded events; what has not the types of one is left out."""
    for event in events:
        if not isinstance(event, dict) or event.get("ph") != "X":
            continue
        category, name, at, duration, args = map(event.get, ("cat", "name", "ts", "dur", "args"))
        if isinstance(category, str) and isinstance(name, str) and _number(at) and _number(duration):
            reduction.add(category, name, float(at), float(duration), args if isinstance(args, dict) else {})  # type: ignore[arg-type]


def _number(value: object) -> bool:
    # a whole number that no float can hold would raise
    return isinstance(value, float) or (isinstance(value, int) and -(1 << 63) < value < 1 << 63)


def with_rank(trace: RankTrace) -> RankTrace:
    """The trace, with the rank that its file's name tells where the trace itself does not."""
    if trace.rank is not None:
        return trace
    name = trace.path.rsplit("/", 1)[-1]
    match = _RANK.search(name) or _END.search(name)
    return trace._replace(rank=int(match.group(1))) if match else trace
