"""Keeps a log that says the same thing a million times from being a million events."""

from __future__ import annotations

import re
from typing import Dict, Optional, Tuple

from collectors.samples.logs import LogEvent

_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")
KEPT = 8
"""Repeats that are passed on; after them the 10th, 100th, 1000th …"""
REMEMBERED = 4096
_ALWAYS = ("kernel.", "elastic.failure", "nccl.init", "nccl.end", "engine.", "job.started")
"""Kinds whose events differ in their numbers alone and all count."""


class Repeats:
    """Counts events that differ in their numbers alone, and drops those that say exactly the same again."""

    def __init__(self) -> None:
        self._counts: Dict[Tuple[object, ...], int] = {}
        self._said: Dict[str, int] = {}

    def pass_on(self, event: LogEvent) -> Optional[LogEvent]:
        """The event, with ``times`` in it when it repeats; None when it adds nothing."""
        if event.kind.startswith(_ALWAYS):
            return event
        exact = _exactly(event)
        told = exact in self._said
        if len(self._said) >= REMEMBERED and not told:
            self._said.clear()
            self._counts.clear()
        self._said[exact] = event.line
        if told:
            return None
        shape = (event.kind, event.rank, event.host, event.pid, _NUMBERS.sub("#", event.text[:200]))
        times = self._counts[shape] = self._counts.get(shape, 0) + 1
        if times == 1:
            return event
        if times > KEPT and str(times).strip("0") != "1":
            return None
        return event._replace(data=dict(event.data, times=times))

    def last(self, event: LogEvent) -> int:
        """The last line on which exactly that was said, as far as it is remembered; the event's own at least."""
        return max(event.line, self._said.get(_exactly(event), 0))


def _exactly(event: LogEvent) -> str:
    data = sorted((name, repr(value)) for name, value in event.data.items() if name != "times")
    return repr((event.kind, event.rank, event.host, event.pid, event.at, data))
