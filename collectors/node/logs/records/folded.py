"""Records of one family that go on in the next lines: a list, or a line that a terminal or a logger wrapped."""

from __future__ import annotations

from typing import List, Pattern

from collectors.node.logs.lines.line import Line, seen
from collectors.node.logs.records import tracebacks
from collectors.node.logs.records.outcome import Outcome
from collectors.node.logs.said import Family

_JOINED = 3
"""Lines that a wrapped record may go on for."""


class Listed:
    """A record that goes on with a list, a thing a line."""

    MOST = 512
    """Lines of one list that are kept."""

    def __init__(self, family: Family, item: Pattern[str], text: str) -> None:
        self.over = False
        self._family = family
        self._item = item
        self._lines: List[str] = [text]

    def take(self, line: Line) -> bool:
        """Whether the line is one of the list."""
        taken = bool(self._item.match(line.text))
        self.over = not taken and bool(line.text.strip())
        if taken and len(self._lines) < self.MOST:
            self._lines.append(line.text)
        return taken

    def end(self) -> Outcome:
        """The record's events."""
        text = "\n".join(self._lines)
        return Outcome(list(self._family.read(text)), text, text, self._family.name)


class Wrapped:
    """A record whose end stands on the next line, as terminals and loggers wrap them."""

    def __init__(self, family: Family, text: str) -> None:
        self.over = False
        self._family = family
        self._first = text
        self._text = text
        self._ways: List[str] = [text]
        """The record so far, put together at every fold with a blank and without: words are cut there, or are not."""
        self._taken: List[Line] = []
        self._complete = False

    def take(self, line: Line) -> bool:
        """Whether the line goes on with the record."""
        unfinished = self._family.unfinished
        new = (line.labelled and line.at is not None) or tracebacks.RECORD.match(line.text) or not line.text.strip()
        if unfinished is None or new:
            self.over = True
            return False
        stripped = " " + line.text.strip()
        self._ways = [seen(begun + rest) for begun in self._ways for rest in (stripped, line.text)]
        complete = [text for text in self._ways if not unfinished.search(text)]
        self._complete = bool(complete)
        self._text = max(complete or self._ways, key=self._told)
        self._taken.append(line)
        self.over = self._complete or len(self._taken) >= _JOINED
        return True

    def _told(self, text: str) -> int:
        return sum(len(said.data) for said in self._family.read(text))

    def end(self) -> Outcome:
        """The record's events."""
        said = list(self._family.read(self._text))
        if self._complete or (said and said != list(self._family.read(self._first))):
            return Outcome(said, self._text, self._text, self._family.name)
        first = self._first
        return Outcome(list(self._family.read(first)), first, first, self._family.name, tuple(self._taken))
