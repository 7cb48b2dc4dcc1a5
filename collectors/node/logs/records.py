"""Records of several lines: what they all have, and those of rules, which read joined lines."""

from __future__ import annotations

import re
from typing import Callable, List, Optional

from collectors.node.logs import prefixes
from collectors.node.logs.prefixes import LabelledLine
from collectors.node.logs.rule import ParsedEvent

_BEGINS = (
    r"^(?:\[?[EWIF]\d{3,8} |\[[A-Z]+\]|(?:- )?(?:[\w.]{1,80} - |\| )?(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b|[=*\-]{5,}"
    r"|srun: |slurmstepd: |Epoch|Traceback|Failures:|Root Cause|Exception (?:in thread|ignored )|.{0,200}?\d%\|"
    r"|\[Rank \d{1,6} Error"
    r"|\S+:\d+:\d+ \[\d+\]|\w[\w.-]*:\d+:\d+ |(?:root|accelerate|torch)[\w.]*: |terminate called "
    r"|\[[EWIF] \w{1,60}\.(?:cpp|cc|h):\d+\]|\[\w{1,40}\] \d{4}-\d\d-\d\d[ T]\d\d:)"
)
_JOINED = 6
"""Lines for which a rule's record goes on at most."""


def begins_record(text: str) -> bool:
    """Whether a line begins a record of its own: no exception's message goes on so."""
    return re.match(_BEGINS, text) is not None


class Record:
    """Takes lines of one stream until it is over."""

    def __init__(self, line: LabelledLine) -> None:
        self.line = line
        """Its first line."""
        self.over = False
        self.message = ""
        """What rules may find more in once the record has ended: an exception's message."""
        self.above = b""
        """The line in front of it, where the same rank wrote that."""
        self.after: Optional[float] = None
        """The last time in front of it, where its own line has none."""
        self.seen = 0
        """Number of the last line of its stream, and when that came."""
        self.touched = 0.0

    def take(self, line: LabelledLine) -> bool:
        """Whether the line belongs to the record."""
        raise NotImplementedError

    def end(self) -> List[ParsedEvent]:
        """What the record says."""
        raise NotImplementedError


class Continued(Record):
    """A record of rules of one kind that goes on for a few lines, until they say all of it; ``read`` applies them."""

    def __init__(self, line: LabelledLine, read: Callable[[str], Optional[ParsedEvent]]) -> None:
        super().__init__(line)
        self._read = read
        self._lines = [line.text]
        self._event, self.message = read(line.text), line.text

    def take(self, line: LabelledLine) -> bool:
        """Whether the line goes on with the record, and says more of it."""
        if (line.labelled and line.at is not None) or begins_record(line.text) or not line.text.strip():
            self.over = True
            return False
        self._lines.append(line.text)
        text = prefixes.seen("\n".join(self._lines))
        event = self._read(text)
        more = event is not None and event != self._event
        if more:
            self._event, self.message = event, text
        self.over = len(self._lines) > _JOINED
        return more

    def end(self) -> List[ParsedEvent]:
        """The record's event."""
        return [] if self._event is None else [self._event._replace(text=self.message)]
