"""Records of several lines, as the parser holds them open: one at most per stream."""

from __future__ import annotations

import re
from typing import List, NamedTuple, Optional, Protocol, Tuple

from collectors.node.logs import exceptions, fatal, tracebacks
from collectors.node.logs.elastic_block import OPENER as ELASTIC
from collectors.node.logs.elastic_block import ElasticBlock
from collectors.node.logs.fatal import FatalBlock
from collectors.node.logs.line import Line
from collectors.node.logs.said import Family, Said

OPENERS = (
    b"Traceback (",
    b'  File "',
    b"Fatal Python error",
    b"Failures:",
    b"Root Cause",
    b"Stack trace of the failed collective",
)
"""Literals of the lines that open a block."""

_FAILED_STACK = re.compile(r"Stack trace of the failed collective:\s*$")
_FAILED_FRAME = re.compile(r"^#\d+ (?P<function>.*?) from (?P<file>.*):(?P<line>\d+)\s*$")
_JOINED = 3
"""Lines that a wrapped record may go on for."""


class Outcome(NamedTuple):
    """What became of a block."""

    said: List[Said]
    text: str
    message: str
    """Text in which other families may find more (an exception's message)."""
    family: str = ""
    """The family that has read the message already."""
    rest: Tuple[Line, ...] = ()
    """Lines that it took, but that were not its own."""


class Block(Protocol):
    """Takes lines of one stream until it is over."""

    over: bool

    def take(self, line: Line) -> bool:
        """Whether the line belongs to the block."""

    def end(self) -> Outcome:
        """What the block says."""


class Exceptional:
    """A Python traceback."""

    def __init__(self, opener: str, thread: str) -> None:
        self.over = False
        self._block = tracebacks.TracebackBlock(opener, thread)
        self._headless = False

    @classmethod
    def headless(cls, line: Line) -> "Exceptional":
        """One whose beginning is missing: a log that was cut, or Python's report of a syntax error."""
        block = cls("", "")
        block._headless = True
        block.take(line)
        return block

    def take(self, line: Line) -> bool:
        """Whether the line belongs to the traceback."""
        taken = self._block.take(line.text)
        self.over = self._block.over
        return taken

    def end(self) -> Outcome:
        """The exception."""
        said = self._block.end()
        if said is None or (self._headless and not self._block.message):
            return Outcome([], "", "")
        if self._headless:
            said.data["cut"] = True
        return Outcome([said], self._block.text, self._block.chain)


class Fatal:
    """A dump of faulthandler."""

    def __init__(self, error: str) -> None:
        self.over = False
        self._block = FatalBlock(error)

    def take(self, line: Line) -> bool:
        """Whether the line belongs to the dump."""
        taken = self._block.take(line.text)
        self.over = self._block.over
        return taken

    def end(self) -> Outcome:
        """The event."""
        return Outcome([self._block.end()], self._block.text, "")


class Failures:
    """The entries of a ChildFailedError."""

    def __init__(self, now: float, script: str, opener: str) -> None:
        self.over = False
        self._strangers = 0
        self._block = ElasticBlock(now, script, opener)
        self._text: List[str] = [opener]

    def take(self, line: Line) -> bool:
        """Whether the line belongs to the block."""
        taken = self._block.take(line.text, line.number)
        if taken and len(self._text) < 80:
            self._text.append(line.text)
        self._strangers = 0 if taken else self._strangers + 1
        self.over = self._strangers > 2
        return taken

    def end(self) -> Outcome:
        """The events of all entries."""
        return Outcome(self._block.end(), "\n".join(self._text)[:4000], "")


class FailedCollective:
    """The Python stack that torch recorded when the collective that timed out was called."""

    def __init__(self) -> None:
        self.over = False
        self._frames: List[Tuple[str, int, str]] = []
        self._text: List[str] = ["Stack trace of the failed collective:"]

    def take(self, line: Line) -> bool:
        """Whether the line is one of its frames."""
        frame = _FAILED_FRAME.match(line.text)
        self.over = frame is None
        if frame is not None and len(self._frames) < 200:
            self._frames.append((frame.group("file"), int(frame.group("line")[:9]), frame.group("function")))
            self._text.append(line.text)
        return frame is not None

    def end(self) -> Outcome:
        """The event."""
        if not self._frames:
            return Outcome([], "", "")
        data = exceptions.framed(list(reversed(self._frames)))
        data.pop("launcher", None)
        return Outcome([Said("torch.failed_collective", data)], "\n".join(self._text)[:4000], "")


class Wrapped:
    """A record whose end stands on the next line, as terminals and loggers wrap them."""

    def __init__(self, family: Family, text: str) -> None:
        self.over = False
        self._family = family
        self._first = text
        self._text = text
        self._taken: List[Line] = []
        self._complete = False

    def take(self, line: Line) -> bool:
        """Whether the line goes on with the record."""
        unfinished = self._family.unfinished
        new = (line.labelled and line.at is not None) or tracebacks.RECORD.match(line.text) or not line.text.strip()
        if unfinished is None or new:
            self.over = True
            return False
        tight, loose = self._text + line.text, self._text + " " + line.text.strip()
        complete = [text for text in (loose, tight) if not unfinished.search(text)]
        self._complete = bool(complete)
        self._text = max(complete, key=self._told) if complete else loose
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


def opened(line: Line, now: float, script: str, thread: str) -> Optional[Block]:
    """The block that a line opens; None when it opens none. ``script`` and ``thread`` were named just before it."""
    text = line.text
    if tracebacks.OPENER.search(text):
        return Exceptional(text, thread)
    error = fatal.FATAL.search(text)
    if error is not None:
        return Fatal(error.group("error"))
    if exceptions.FRAME.match(text):
        return Exceptional.headless(line)
    if ELASTIC.match(text):
        return Failures(now, script, text)
    return FailedCollective() if _FAILED_STACK.search(text) else None
