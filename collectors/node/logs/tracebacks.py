"""A Python traceback, kept whole: frames, the exception's line, its message, the chain in front of it.

Plain ones and the boxed ones of rich. Two processes that write into one stream without labels are told apart as well as
can be: a second opening inside a traceback makes a second exception out of the same lines.
"""

from __future__ import annotations

import re
from typing import List, Optional, Tuple

from collectors.node.logs import exceptions
from collectors.node.logs.said import Data, Said

OPENER = re.compile(r"(?:^|[^\w\"'])Traceback \((?:most recent call last|innermost last)\)\s*:?\s*(?:[─-]*[╮+])?\s*$")
_BOX = re.compile(r"^\s*[╭┌+].*Traceback \(most recent call last\)")
_BOX_FRAME = re.compile(r"^[│|]\s*(?P<file>\S+\.\w+|<\w+>):(?P<line>\d+) in (?P<function>[^│|]*?)\s*[│|]?\s*$")
_BOX_END = re.compile(r"^\s*[╰└+][─-]+[╯┘+]\s*$")
_CHAIN = re.compile(
    r"^(?:During handling of the above exception, another exception occurred"
    r"|The above exception was the direct cause of the following exception):"
)
_EXCEPTION = re.compile(r"^(?P<type>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(\w+\))?(?::(?: .*)?)?$", re.S)
_LOOKS_RAISED = re.compile(
    r"(?:Error|Exception|Interrupt|Exit|Warning|Failure|Abort|Timeout|Stop\w*|Canceled|Cancelled|Mismatch|Died)$"
)
_REPEATED = re.compile(r"^\s*\[Previous line repeated \d+ more times?\]")
RECORD = re.compile(
    r"^(?:\[?[EWIF]\d{3,4} |\[[A-Z]+\]|(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b|[=*\-]{5,}"
    r"|srun: |slurmstepd: |Epoch|Traceback|"
    r"\S+:\d+:\d+ \[\d+\]|\w[\w.-]*:\d+:\d+ |(?:root|accelerate|torch)[\w.]*: |Failures:"
    r"|Root Cause|Exception in thread|\d+%\|)"
)
_BACKTRACE = re.compile(
    r"^(?:frame #\d+:|Exception raised from |<omitting python frames>|C\+\+ (?:Capture|Call)|#\d+ )"
)

FRAMES = 2000
"""Frames of one traceback that are looked at."""
MESSAGE_LINES = 24
TEXT = 4000
"""Characters of a traceback that an event carries: the beginning and, more of it, the end."""


class TracebackBlock:
    """Takes the lines that follow an opening; :meth:`end` gives the exception."""

    def __init__(self, opener: str, thread: str = "") -> None:
        self.thread = thread
        self.over = False
        self.extra = 0
        """Further openings seen before this one ended."""
        self._boxed = bool(_BOX.match(opener))
        self._frames: List[Tuple[str, int, str]] = []
        self._message: List[str] = []
        self._lines: List[str] = [opener.strip()]
        self._size = 0
        self._first_type = ""
        self._earlier = ""
        """What the exceptions said that led to this one."""
        self._blank = False
        self._chained = False

    def take(self, text: str) -> bool:
        """Whether the line belongs to the traceback."""
        taken = self._boxed_line(text) if self._boxed else self._line(text)
        if taken:
            self._keep(text)
        else:
            self.over = True
        return taken

    def _line(self, text: str) -> bool:
        if OPENER.search(text) and (not self._message or self._chained):
            self.extra += 0 if self._chained else 1
            self._chained = False
            return True
        if self._message:
            return self._after_message(text)
        frame = exceptions.FRAME.match(text)
        if frame is not None:
            self._add(frame.group("file"), frame.group("line"), frame.group("function") or "<module>")
            return True
        if text[:1] in (" ", "\t") or not text.strip() or _REPEATED.match(text):
            return True
        if _CHAIN.match(text) or self._chained:
            return True
        exception = _EXCEPTION.match(text)
        if exception is not None and (self._frames or _LOOKS_RAISED.search(exception.group("type"))):
            self._message.append(text)
            self._first_type = self._first_type or exception.group("type").rsplit(".", 1)[-1]
            return True
        return False

    def _after_message(self, text: str) -> bool:
        if _CHAIN.match(text):
            self._earlier = "\n".join([self._earlier, *self._message])[:TEXT].strip()
            self._message, self._frames, self._blank, self._chained = [], [], False, True
            return True
        if not text.strip():
            self._blank = True
            return len(self._message) < MESSAGE_LINES
        if self._blank or RECORD.match(text) or OPENER.search(text) or len(self._message) >= MESSAGE_LINES:
            return False
        if not _BACKTRACE.match(text):
            self._message.append(text)
        return True

    def _boxed_line(self, text: str) -> bool:
        frame = _BOX_FRAME.match(text.rstrip())
        if frame is not None:
            self._add(frame.group("file"), frame.group("line"), frame.group("function"))
            return True
        if text.lstrip()[:1] in ("│", "|"):
            return True
        if _BOX_END.match(text):
            self._boxed = False
            return True
        return False

    def _add(self, file: str, line: str, function: str) -> None:
        self._chained = False
        if len(self._frames) < FRAMES:
            self._frames.append((file, int(line[:9]), function.strip()))

    def _keep(self, text: str) -> None:
        self._lines.append(text)
        self._size += len(text) + 1
        while self._size > 4 * TEXT and len(self._lines) > 24:
            self._size -= len(self._lines.pop(12)) + 1

    @property
    def text(self) -> str:
        """The traceback, its middle left out when it is long."""
        whole = "\n".join(self._lines).rstrip()
        if len(whole) <= TEXT:
            return whole
        return whole[: TEXT // 4] + "\n  …\n" + whole[-(TEXT - TEXT // 4) :]

    @property
    def message(self) -> str:
        """The exception's line and what its message goes on with."""
        return "\n".join(self._message)

    @property
    def chain(self) -> str:
        """The same, after what the exceptions said that led to it."""
        return f"{self._earlier}\n{self.message}".strip()

    def end(self) -> Optional[Said]:
        """The exception; None for an opening that nothing followed."""
        if not self._frames and not self._message:
            return None
        data: Data = (
            exceptions.headline(self.message)
            if self._message
            else {"type": "", "message": "", "signature": "user", "consequence": False}
        )
        data.update(exceptions.framed(self._frames))
        if self.thread:
            data["thread"] = self.thread
        if self._first_type and self._first_type != data.get("type"):
            data["chained"] = self._first_type
        if not self._message:
            data["cut"] = True
        return Said("python.exception", data)
