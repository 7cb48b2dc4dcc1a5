"""A record of several lines of which more may come: a traceback, a report, a wrapped line."""

from __future__ import annotations

from typing import Optional

from collectors.node.logs.lines import line
from collectors.node.logs.records.outcome import OpenBlock


class OpenRecord:
    """A record that is still open, and where it began."""

    __slots__ = (
        "after",
        "block",
        "ignored",
        "known",
        "line",
        "logged",
        "mild",
        "quiet_from",
        "ran_at",
        "read_at",
        "seen",
    )

    def __init__(
        self, block: OpenBlock, begun: line.Line, after: Optional[float], read_at: Optional[float], seen: int
    ) -> None:
        self.logged = False
        """True when a logger's line introduced it: an exception that was caught."""
        self.mild = False
        """True when that line was a warning, or told of another try: whoever caught it went on."""
        self.ignored = False
        """True where Python said that it ignores the exception."""
        self.ran_at = ""
        """Where Ray's worker ran, as the line before it told."""
        self.block = block
        self.line = begun
        self.after = after
        self.read_at = read_at
        self.seen = seen
        self.known = -1
        """``seen`` when it was last asked for how long nothing had come."""
        self.quiet_from = 0.0
