"""One line of the kernel's log, as dmesg, kmsg or the journal give it, to an event."""

from __future__ import annotations

from typing import Optional

from collectors.node.logs.matching import SCANNER
from collectors.node.logs.prefixes import Line, Stream
from collectors.node.logs.reader import Reader
from collectors.samples.logs import LogEvent

LONGEST = 4000
"""Characters of a line that are looked at."""


def event(text: str, at: Optional[float], source: str, line: int = 0) -> Optional[LogEvent]:
    """The event of one line; None when it says nothing that matters here. ``at`` is the line's time."""
    clipped = text[:LONGEST]
    mask = SCANNER.mask(clipped.encode("utf-8", "replace"))
    if not mask:
        return None
    reader = Reader(source, None, None, "", at or 0.0)
    reader.read(Line(line, clipped, Stream(), at, None, labelled=False, program="kernel"), mask, bytes)
    reader.end()
    return next((found._replace(at=at) for found in reader.events if found.kind.startswith("kernel.")), None)
