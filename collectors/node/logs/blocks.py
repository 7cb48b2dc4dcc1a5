"""Records of several lines, as the reader holds them open: tracebacks, dumps, reports, and rules that go on."""

from __future__ import annotations

import re
from typing import Callable, List, NamedTuple, Optional, Protocol, Tuple

from collectors.node.logs import exceptions, prefixes, tracebacks
from collectors.node.logs.elastic_report import OPENER as ELASTIC
from collectors.node.logs.elastic_report import ElasticReport
from collectors.node.logs.prefixes import Line, RepeatedPrefix
from collectors.node.logs.rule import ParsedEvent, Rule

OPENERS = (
    b"Traceback (", b'File "', b'File \\"', b"Fatal Python error", b"Failures:", b"Root Cause",
    b"Stack trace of the failed collective", b" last):",
)  # fmt: skip
"""Literals of the lines that open a block."""
NAMING = (
    b" FAILED", b"-- Process ", b"Error Snippet", b"Exception in thread ", b" world_rank=", b"Error:", b"Exception:",
)  # fmt: skip
"""Literals of the lines that name what follows, and of an exception's last line."""
_FAILED_STACK = re.compile(r"Stack trace of the failed collective:\s*$")
_FAILED_FRAME = re.compile(r"^#\d+ (?P<function>.*?) from (?P<file>.*):(?P<line>\d+)\s*$")
_FATAL = re.compile(r"Fatal Python error: (?P<error>[^\r\n]*)")
_THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):")
_THREAD_FRAME = re.compile(r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+) in (?P<function>.*)$')
_AT_HEAD = 3
"""Lines within which a log that was cut in the midst of a traceback shows its first frame. Further down a list of
frames may be anything: a compiler's remark, a logged stack."""
_JOINED, _LISTED = 3, 512
"""Lines for which a rule's record goes on at most, and those of a list."""
FRAMES = 200
TEXT = 4000
"""Characters of a record's text."""


class Outcome(NamedTuple):
    """What became of a block."""

    events: List[ParsedEvent]
    text: str
    message: str = ""
    """Text in which rules may find more: an exception's message."""
    subject: str = ""
    """Subject whose rules have read the message already."""


class Block(Protocol):
    """Takes lines of one stream until it is over."""

    over: bool

    def take(self, line: Line) -> bool:
        """Whether the line belongs to the block."""

    def end(self) -> Outcome:
        """What the block says."""


class Traceback:
    """A Python traceback."""

    def __init__(self, opener: str, thread: str) -> None:
        self.over = False
        self.open_frames = False
        """True once a frame came without the label that its head has."""
        self._block = tracebacks.TracebackBlock(opener, thread)
        self._headless = self._sure = False
        self._dated: Optional[bool] = None
        """Whether its own lines bear a time: where none does, one behind the message that does is a logger's."""

    @classmethod
    def headless(cls, line: Line, front: Optional[RepeatedPrefix] = None) -> "Traceback":
        """One whose beginning is missing: a log that was cut, or Python's report of a syntax error."""
        block = cls("", "")
        block._block.fronted(front)
        block._headless = True
        block._sure = line.number <= _AT_HEAD or line.stream.rank is not None
        block.take(line)
        return block

    def goes_on(self, text: str) -> bool:
        """Whether a line without a label, right after one that has one, may be the traceback's."""
        self.open_frames = self.open_frames or bool(text.startswith('  File "') and exceptions.FRAME.match(text))
        return self.open_frames

    def take(self, line: Line) -> bool:
        """Whether the line belongs to the traceback."""
        self._dated = line.at is not None if self._dated is None else self._dated
        if line.at is not None and not self._dated and self._block.message:
            self.over = True
            return False
        taken = self._block.take(line.text)
        self.over = self._block.over
        return taken

    def end(self) -> Outcome:
        """The exception; none where frames without a head and without a message may be anything."""
        event = self._block.end()
        enough = self._block.message or self._block.chain or (self._sure and self._block.frames > 1)
        if event is None or (self._headless and not enough):
            return Outcome([], "")
        if self._headless:
            event.data.update(cut=True, headless=True)
        return Outcome([event], self._block.text, self._block.chain)


class FatalDump:
    """A dump of faulthandler: "Fatal Python error" and the stacks of all threads, innermost frame first."""

    def __init__(self, error: str, front: Optional[RepeatedPrefix]) -> None:
        self.over = False
        self._error = error
        self._front = front
        self._frames: Optional[List[Tuple[str, int, str]]] = None
        self._current: List[Tuple[str, int, str]] = []
        self._lines: List[str] = ["Fatal Python error: " + error]

    def take(self, line: Line) -> bool:
        """Whether the line belongs to the dump."""
        bare = None if self._front is None else self._front.off(line.text)
        text = line.text if bare is None else bare
        frame = _THREAD_FRAME.match(text)
        if frame is not None:
            if self._frames is not None and len(self._frames) < FRAMES:
                self._frames.append((frame.group("file"), int(frame.group("line")[:9]), frame.group("function")))
        elif _THREAD.match(text):
            self._frames = self._current if text.startswith("Current thread") and not self._current else None
        elif text.strip() and not text.startswith(
            (" ", "Python runtime state", "Extension modules", "<no Python frame>")
        ):
            self.over = True
            return False
        if len(self._lines) < 60:
            self._lines.append(text)
        return True

    def end(self) -> Outcome:
        """The event."""
        event = ParsedEvent("python.fatal", {"error": self._error})
        if self._current:
            event.data.update(exceptions.framed(list(reversed(self._current))))
            event.data.pop("launcher", None)
        return Outcome([event], "\n".join(self._lines)[:TEXT].rstrip())


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
        if frame is not None and len(self._frames) < FRAMES:
            self._frames.append((frame.group("file"), int(frame.group("line")[:9]), frame.group("function")))
            self._text.append(line.text)
        return frame is not None

    def end(self) -> Outcome:
        """The event."""
        if not self._frames:
            return Outcome([], "")
        data = exceptions.framed(list(reversed(self._frames)))
        data.pop("launcher", None)
        return Outcome([ParsedEvent("torch.failed_collective", data)], "\n".join(self._text)[:TEXT])


class Failures:
    """The entries of a ChildFailedError."""

    def __init__(self, now: float, script: str, opener: str) -> None:
        self.over = False
        self._strangers = 0
        self._report = ElasticReport(now, script, opener)
        self._text: List[str] = [opener]

    def take(self, line: Line) -> bool:
        """Whether the line belongs to the block."""
        taken = self._report.take(line.text, line.number)
        if taken and len(self._text) < 80:
            self._text.append(line.text)
        self._strangers = 0 if taken else self._strangers + 1
        self.over = self._strangers > 2
        return taken

    def end(self) -> Outcome:
        """The events of all entries."""
        return Outcome(self._report.end(), "\n".join(self._text)[:TEXT])


class Continued:
    """A record of one rule that goes on in the next lines: with a list, or for a few until they say all of it.

    ``read`` is what the rules of the subject make of the lines put together. Lines that add nothing are others' too.
    """

    def __init__(self, rule: Rule, subject: str, read: Callable[[str], List[ParsedEvent]], first: Line) -> None:
        self.over = False
        self.rule = rule
        self._subject = subject
        self._read = read
        self._item = re.compile(rule.item) if rule.item else None
        self._lines: List[str] = [first.text]
        self._taken = 0
        self._events: List[ParsedEvent] = []
        self._text = first.text
        """As many lines as the events are made of."""
        self._look()

    def take(self, line: Line) -> bool:
        """Whether the line goes on with the record."""
        self._taken += 1
        if self._item is not None:
            taken = bool(self._item.match(line.text))
            self.over = not taken and bool(line.text.strip())
            if taken and len(self._lines) < _LISTED:
                self._lines.append(line.text)
            return taken
        if (line.labelled and line.at is not None) or tracebacks.RECORD.match(line.text) or not line.text.strip():
            self.over = True
            return False
        self._lines.append(line.text)
        more = self._look()
        self.over = more or self._taken >= _JOINED
        return more

    def _look(self) -> bool:
        """Whether the lines say more now than without the last one."""
        text = prefixes.seen("\n".join(self._lines))
        events = self._read(text)
        if not events or events == self._events:
            return False
        self._events, self._text = events, text
        return True

    def end(self) -> Outcome:
        """The record's events."""
        if self._item is not None:
            self._look()
        return Outcome(self._events, self._text, self._text if self._events else "", self._subject)


def opened(line: Line, now: float, script: str, thread: str) -> Optional[Block]:
    """The block that a line opens; None when it opens none. ``script`` and ``thread`` were named just before it."""
    text = line.text
    if tracebacks.OPENER.search(text):
        return Traceback(text, thread)
    if text.rstrip().endswith(" last):") and tracebacks.HEAD.endswith(text.strip()):
        return Traceback(text.strip(), thread)  # the first half stands elsewhere
    error = _FATAL.search(text)
    if error is not None:
        return FatalDump(error.group("error"), prefixes.before(text, "Fatal Python error"))
    front = prefixes.before_frame(text)
    if exceptions.FRAME.match(text) or front is not None:
        return Traceback.headless(line, front)
    if ELASTIC.match(text):
        return Failures(now, script, text)
    return FailedCollective() if _FAILED_STACK.search(text) else None


class OpenRecord:
    """A record that is still open, and where it began."""

    __slots__ = ("after", "block", "caught", "ignored", "known", "line", "logged", "quiet_from", "read_at", "seen")

    def __init__(self, block: Block, begun: Line, after: Optional[float], read_at: Optional[float], seen: int) -> None:
        self.block = block
        self.line = begun
        self.after = after
        self.read_at = read_at
        self.seen = seen
        self.known = -1
        """``seen`` when it was last asked for how long nothing had come."""
        self.quiet_from = 0.0
        self.logged = self.caught = self.ignored = False
        """A logger's line introduced it; that was a warning, or told of another try; Python said that it ignores it."""
