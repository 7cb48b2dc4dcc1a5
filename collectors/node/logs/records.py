"""Multi-line records: joined lines for rules that need several, and Python tracebacks.

A traceback extends from its first line to the last line of the exception's message.
"""

from __future__ import annotations

import re
from typing import List, Optional, Tuple

from collectors.node.logs import exceptions, matching, prefixes
from collectors.node.logs.prefixes import LabelledLine
from collectors.node.logs.rule import Data, parsed_event
from collectors.samples.logs import LogEvent

_BEGINS = (
    r"^(?:\[?[EWIF]\d{3,8} |\[[A-Z]+\]|(?:- )?(?:[\w.]{1,80} - |\| )?(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b|[=*\-]{5,}"
    r"|srun: |slurmstepd: |Epoch|Traceback|Failures:|Root Cause|Exception (?:in thread|ignored )|.{0,200}?\d%\|"
    r"|\[Rank \d{1,6} Error"
    r"|\S+:\d+:\d+ \[\d+\]|\w[\w.-]*:\d+:\d+ |(?:root|accelerate|torch)[\w.]*: |terminate called "
    r"|\[[EWIF] \w{1,60}\.(?:cpp|cc|h):\d+\]|\[\w{1,40}\] \d{4}-\d\d-\d\d[ T]\d\d:)"
)
"""Beginnings of a new record: no exception message continues like this."""
_JOINED = 6
"""Lines by which a rule's record continues at most."""
TRACEBACK = (
    r"(?:^|[^\w\"'])Traceback \((?:most recent call last|innermost last)\)\s{0,4}:?(?: \(RANK \d{1,7}\))?\s{0,300}$"
)
"""The first line of a traceback."""
_CHAIN = (
    r"^(?:During handling of the above exception, another|The above exception was the direct cause of|Original Trac)"
)
_EXCEPTION = r"(?s)^(?P<type>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(\w+\))?(?::(?: .*)?)?$"
_LOOKS_RAISED = r"(?:Error|Exception|Interrupt|Exit|Warning|Failure|Timeout|Stop\w*|Cancell?ed|Died)$"
_CARRIER = "RayTaskError("
"""Ray's exception, whose message is the worker's traceback: the message's last line is the worker's own exception."""
_LAUNCHER = r"(?:srun|slurmstepd|mpirun|mpiexec|prterun|scancel): "
"""Programs whose messages look like the line of an exception, and interrupt a traceback."""
_BACKTRACE = r"^(?:frame #\d+:|Exception raised from |<omitting python frames>|C\+\+ C|#\d+ )"
_LOGGED = (
    rb"\b(?:Stack|defined at) \(most recent"
    rb"|\b(?:ERROR|WARN(?:ING)?|CRITICAL|EXCEPTION|Error(?! executing job with overrides)|Warning|error|warning)\b"
    rb"[\]|: -]"
)
"""A logger's line, except Hydra's, which logs an exception and then exits."""
_UNCAUGHT = (
    r"\ATraceback \(most recent call last\):\s{1,8}File \"[^\"\r\n]{1,400}\", line \d{1,7},"
    r" in (?:<module>|_run_module_as_main|_bootstrap\w{0,8})\s"
)
"""A traceback from the outermost frame of a program, thread or child process: the exception was not caught."""

FRAMES, MESSAGE_LINES = 2000, 24
"""Frames, and lines of the message, read of one exception."""
KEPT_LINES = 400
"""Lines kept of a record: the first few and the last ones."""
TEXT = 4000
"""Characters of a record in an event: a quarter from its beginning, the rest from its end."""


class Record:
    """Collects lines of one stream until the record is complete."""

    def __init__(self, line: LabelledLine) -> None:
        self.line = line
        """Its first line."""
        self.over = False
        self.message = ""
        """Text (an exception's message) to which the rules are applied once the record has ended."""
        self.above = b""
        """The line before the record, if the same rank wrote it."""
        self.after: Optional[float] = None
        """The last time printed before the record, if its first line has none."""
        self.seen = 0
        """Number of the last line of its stream; ``touched`` is that line's time."""
        self.touched = 0.0

    def take(self, line: LabelledLine) -> bool:
        """Whether the line belongs to the record."""
        raise NotImplementedError

    def end(self) -> List[LogEvent]:
        """Events of the record."""
        raise NotImplementedError


class Continued(Record):
    """A record of a few lines for the rules of one kind."""

    def __init__(self, line: LabelledLine, kind: str) -> None:
        super().__init__(line)
        self._kind = kind
        self._lines = [line.text]
        self._event, self.message = matching.of_kind(kind, line.text), line.text

    def take(self, line: LabelledLine) -> bool:
        """Whether the line continues the record and changes its event."""
        if (line.labelled and line.at is not None) or re.match(_BEGINS, line.text) or not line.text.strip():
            self.over = True
            return False
        self._lines.append(line.text)
        text = prefixes.seen("\n".join(self._lines))
        event = matching.of_kind(self._kind, text)
        more = event is not None and event != self._event
        if more:
            self._event, self.message = event, text
        self.over = len(self._lines) > _JOINED
        return more

    def end(self) -> List[LogEvent]:
        """The record's event."""
        return [] if self._event is None else [self._event._replace(text=self.message)]


class _Raised:
    """One exception of a chain."""

    def __init__(self) -> None:
        self.frames: List[Tuple[str, int, str]] = []
        self.message: List[str] = []

    @property
    def said(self) -> str:
        return "\n".join(self.message)


class Traceback(Record):
    """Collects the lines after "Traceback", up to the exception's line and its message."""

    def __init__(self, line: LabelledLine) -> None:
        super().__init__(line)
        opener = line.text
        self._front = opener[: max(0, opener.find("Traceback ("))]
        """Prefix of every line: an indentation, as in torchelastic's report, or an unknown label."""
        self._chain = [_Raised()]
        """Chained exceptions, earliest first: the first few, and the last."""
        self._lines: List[str] = [opener.strip()]
        self._taken = 0
        self._blank = False
        self._dated: Optional[bool] = None
        """Whether its own lines have a time. If not, a line with a time after the message is a logger's."""

    def take(self, line: LabelledLine) -> bool:
        """Whether the line belongs to the traceback."""
        self._dated = line.at is not None if self._dated is None else self._dated
        text = line.text.rstrip()
        if self._front and text.startswith(self._front.rstrip(" ")):
            text = text[len(self._front) :]
        last = self._chain[-1]
        if last.message:
            self.over = (line.at is not None and not self._dated) or not self._goes_on(text, last)
        else:
            self.over = not self._leads_to(text, last)
        if not self.over:
            self._taken += 1
            self._lines.append(text)
            del self._lines[12 : len(self._lines) - KEPT_LINES + 12]
        return not self.over

    def _leads_to(self, text: str, raised: _Raised) -> bool:
        """Whether a line continues the traceback up to the exception's line."""
        frame = re.match(exceptions.FRAME, text)
        if frame is not None:
            if len(raised.frames) < FRAMES:
                function = (frame.group("function") or "<module>").strip()
                raised.frames.append((frame.group("file"), int(frame.group("line")[:9]), function))
            return True
        if text[:1] in (" ", "\t", "") or re.search(TRACEBACK, text) or re.match(_CHAIN, text):
            return True
        exception = None if re.match(_LAUNCHER, text) else re.match(_EXCEPTION, text)
        if exception is None or not (raised.frames or re.search(_LOOKS_RAISED, exception.group("type"))):
            return False
        raised.message.append(text)
        return True

    def _goes_on(self, text: str, raised: _Raised) -> bool:
        """Whether a line continues the exception's message, or introduces the next exception of the chain."""
        if re.match(_CHAIN, text):
            self._chain.append(_Raised())
            del self._chain[6:-1]
            self._blank = False
            return True
        if not text.strip():
            self._blank = True
            return len(raised.message) < MESSAGE_LINES
        if self._blank or re.match(_BEGINS, text) or re.search(TRACEBACK, text):
            return False
        if len(raised.message) < MESSAGE_LINES:
            raised.message += [] if re.match(_BACKTRACE, text) else [text]
            return True
        if _CARRIER in raised.message[0] and re.match(_EXCEPTION, text):
            raised.message[-1] = text
            return True
        return text[:1] in (" ", "\t") and self._taken < MESSAGE_LINES * FRAMES

    def end(self) -> List[LogEvent]:
        """Event of the exception; none if no frame follows the first line."""
        raised, earlier = self._chain[-1], self._chain[:-1]
        begun = any(line.lstrip().startswith('File "') for line in self._lines[1:])
        if not (raised.frames or raised.message or begun):
            return []
        whole = "\n".join(self._lines).rstrip()
        text = whole if len(whole) <= TEXT else whole[: TEXT // 4] + "\n  …\n" + whole[-(TEXT - TEXT // 4) :]
        chain = "\n".join([before.said[: TEXT // 2] for before in earlier])[:TEXT] + "\n" + raised.said
        last = raised.said or "".join(before.said for before in earlier[-1:])
        data: Data = {"type": "", "message": "", "signature": "user", "consequence": False}
        data.update(exceptions.headline(last) if last else {})
        data.update(exceptions.framed(raised.frames))
        if self._taken > text.count("\n") + 1:
            data["record_lines"] = self._taken + 1
        if re.search(_LOGGED, self.above):
            data["logged"] = True
        ignored = b"Exception ignored " in self.above
        caught = b"WARNING" in self.above  # a program that logs an exception as a warning continues
        if ignored or (caught and not re.search(_UNCAUGHT, text)):
            data["survived"] = True
        self.message = "" if ignored else chain.strip()
        return [parsed_event("python.exception", data, text)]
