"""Events as the standard library decodes them, and the rank that a file's name tells."""

from __future__ import annotations

import json
import re
from typing import Any, List

from collectors.probes.trace.remote.reduction import Reduction
from collectors.samples.traces import RankTrace

_BETWEEN = re.compile(rb'\}\s*,\s*\{(?=\s*"ph"\s*:)')
_SKIPPED = re.compile(
    rb'\s*"ph"\s*:\s*"(?:[^X"]|X"\s*,\s*"cat"\s*:\s*"'
    rb'(?:python_function|cuda_runtime|cuda_driver|cuda_sync|hip_runtime|overhead|Trace)")'
)
_RANK = re.compile(r"(?:^|[^a-zA-Z])rank[-_.= ]?(\d{1,6})(?!\d)", re.IGNORECASE)
_END = re.compile(r"(?:^|[-_.])(\d{1,4})(?:\.pt\.trace|\.trace)?\.json(?:\.gz)?$")


def decode(data: bytes) -> List[Any]:
    """Events of an array of any JSON values, without those that surely do not count.

    Decoding is what costs the time; so events are cut apart by pattern, and Python frames, launches and flows are left
    out unread. Where a cut was wrong what is left is no JSON, and all is decoded. Raises :class:`ValueError`.
    """
    inner = data[1:-1].strip()
    if inner.startswith(b"{") and inner.endswith(b"}"):
        kept = [part for part in _BETWEEN.split(inner[1:-1]) if not _SKIPPED.match(part)]
        try:
            return _array(b"[{" + b"},{".join(kept) + b"}]") if kept else []
        except ValueError:
            return _array(data)
    return _array(data)


def _array(data: bytes) -> List[Any]:
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
