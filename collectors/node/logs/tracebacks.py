"""A Python traceback, kept whole: frames, the exception's line, its message, the chain in front of it.

Two processes that write into one stream without labels are told apart as well as
can be: a second opening inside a traceback makes a second exception out of the same lines.
"""

from __future__ import annotations

import re
from typing import List, Optional, Tuple

from collectors.node.logs import counters, exceptions, prefixes
from collectors.node.logs.rule import Data, ParsedEvent

OPENER = re.compile(
    r"(?:^|[^\w\"'])Traceback \((?:most recent call last|innermost last)\)"
    r"\s{0,4}:?(?: \(RANK \d{1,7}\))?\s{0,300}$"
)
HEAD = "Traceback (most recent call last):"
RECORD = re.compile(
    r"^(?:\[?[EWIF]\d{3,8} |\[[A-Z]+\]|(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b|[=*\-]{5,}"
    r"|srun: |slurmstepd: |Epoch|Traceback|"
    r"\S+:\d+:\d+ \[\d+\]|\w[\w.-]*:\d+:\d+ |(?:root|accelerate|torch)[\w.]*: |Failures:"
    r"|\[Rank \d{1,6} Error|Root Cause|Exception in thread|\d+%\|"
    r"|\[[EWIF] \w{1,60}\.(?:cpp|cc|h):\d+\]|terminate called |Exception ignored "
    r"|\[\w{1,40}\] \d{4}-\d\d-\d\d[ T]\d\d:"
    r"|(?:- )?[\w.]{1,80} - (?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b|\| (?:INFO|WARNING|ERROR|DEBUG|CRITICAL)\b)"
)
"""What begins a record of its own: no exception's message goes on so."""
_CHAIN = re.compile(
    r"^(?:During handling of the above exception, another exception occurred"
    r"|The above exception was the direct cause of the following exception):"
)
_EXCEPTION = re.compile(r"^(?P<type>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(\w+\))?(?::(?: .*)?)?$", re.S)
_LOOKS_RAISED = re.compile(
    r"(?:Error|Exception|Interrupt|Exit|Warning|Failure|Abort|Timeout|Stop\w*|Canceled|Cancelled|Mismatch|Died)$"
)
_CARRIER = re.compile(r"[\w.]{0,80}RayTaskError\((?P<type>\w{1,80})\): ")
"""Ray's, whose message is the traceback of the worker that raised: its last line is the worker's own exception."""
_LAUNCHER = re.compile(r"(?:srun|slurmstepd|mpirun|mpiexec|prterun|orterun|scancel): ")
"""Programs whose lines look like an exception's, and cut a traceback short."""
_REPEATED = re.compile(r"^\s*\[Previous line repeated \d+ more times?\]")
_BACKTRACE = re.compile(
    r"^(?:frame #\d+:|Exception raised from |<omitting python frames>|C\+\+ (?:Capture|Call)|#\d+ )"
)
_BEGUN = re.compile(r'^\s{1,8}File "')
_QUEUES = "/multiprocessing/queues.py"
_READER_GONE = re.compile(r"(?:BrokenPipe|ConnectionReset|EOF)Error\Z")
"""The thread that feeds a queue of multiprocessing prints such an exception and goes on: whoever read has ended."""

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
        self._indent = opener[: len(opener) - len(opener.lstrip(" \t"))]
        """In front of every line where all of it is indented, as in torchelastic's report."""
        self._front = prefixes.before(opener, "Traceback (")
        """What may stand in front of all its lines; the first of them tells."""
        self._fronted = False
        self._frames: List[Tuple[str, int, str]] = []
        self._message: List[str] = []
        self._lines: List[str] = [opener.strip()]
        self._size = self._taken = 0
        self._first_type = ""
        self._earlier: List[str] = []
        """What the exceptions said that led to this one: the first ones, and the last."""
        self._blank = self._chained = False

    def fronted(self, front: Optional[prefixes.RepeatedPrefix]) -> None:
        """From now on this stands in front of each line."""
        self._front, self._fronted = front, front is not None

    @property
    def frames(self) -> int:
        """How many frames it has."""
        return len(self._frames)

    def take(self, text: str) -> bool:
        """Whether the line belongs to the traceback."""
        text = text.rstrip()
        if self._indent and text.startswith(self._indent):
            text = text[len(self._indent) :]
        if self._front is not None:
            text = self._without_front(text)
        self.over = not self._line(text)
        if not self.over:
            self._taken += 1
            self._keep(text)
        return not self.over

    def _without_front(self, text: str) -> str:
        """The line without what stands in front of every line; whether something does, the first frame tells."""
        rest = self._front.off(text) if self._front is not None else None
        if rest is not None and (self._fronted or exceptions.FRAME.match(rest)):
            self._fronted = True
            return rest
        if not self._fronted and text.strip():
            self._front = None
        return text

    def _line(self, text: str) -> bool:
        if OPENER.search(text) and (not self._message or self._chained):
            self._chained = False
            return True
        if self._message:
            return self._after_message(text)
        frame = exceptions.FRAME.match(text)
        if frame is not None:
            self._add(frame.group("file"), frame.group("line"), frame.group("function") or "<module>")
            return True
        if text[:1] in (" ", "\t", "") or _REPEATED.match(text) or _CHAIN.match(text) or self._chained:
            return True
        exception = None if _LAUNCHER.match(text) else _EXCEPTION.match(text)
        if exception is None or not (self._frames or _LOOKS_RAISED.search(exception.group("type"))):
            return False
        self._message.append(text)
        self._first_type = self._first_type or exception.group("type").rsplit(".", 1)[-1]
        return True

    def _after_message(self, text: str) -> bool:
        if _CHAIN.match(text):
            self._earlier = [*self._earlier[:6], self.message[: TEXT // 2]]
            self._message, self._frames, self._blank, self._chained = [], [], False, True
            return True
        if not text.strip():
            self._blank = True
            return len(self._message) < MESSAGE_LINES
        if self._blank or RECORD.match(text) or OPENER.search(text):
            return False
        if len(self._message) >= MESSAGE_LINES:
            if self._of_worker(text):
                self._message[-1] = text
                return True
            return text[:1] in (" ", "\t") and self._taken < MESSAGE_LINES * FRAMES
        if _counts(text):
            return False
        if not _BACKTRACE.match(text):
            self._message.append(text)
        return True

    def _of_worker(self, text: str) -> bool:
        """Whether the line is the exception that Ray's task carried here, or the next task's that did."""
        carrier = _CARRIER.match(self._message[0])
        return carrier is not None and bool(
            _CARRIER.match(text) or re.match(r"(?:\w+\.){0,8}%s(?::|$)" % re.escape(carrier.group("type")), text)
        )

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
        earlier = "\n".join(self._earlier)[:TEXT]
        return f"{earlier}\n{self.message}".strip()

    def end(self) -> Optional[ParsedEvent]:
        """The exception; None for an opening that no frame followed, be it cut off in its midst."""
        if not self._frames and not self._message and not any(map(_BEGUN.match, self._lines[1:])):
            return None
        last = self.message or "".join(self._earlier[-1:])
        data: Data = {"type": "", "message": "", "signature": "user", "consequence": False}
        data.update(exceptions.headline(last) if last else {})
        data.update(exceptions.framed(self._frames))
        if data["signature"] == "connection" and exceptions.of_a_service(self._frames, self.chain):
            data["signature"] = "user"
        if self.thread:
            data["thread"] = self.thread
        if self._first_type and self._first_type != data.get("type"):
            data["chained"] = self._first_type
        if not self._message:
            data["cut"] = True
        if self._taken > self.text.count("\n") + 1:
            data["record_lines"] = self._taken + 1
        file, _, function = self._frames[0] if self._frames else ("", 0, "")
        if file.endswith(_QUEUES) and function == "_feed" and _READER_GONE.match(str(data.get("type"))):
            data["survived"] = True
        return ParsedEvent("python.exception", data)


def _counts(text: str) -> bool:
    """Whether a line counts steps: training writes it, and no exception's message goes on so."""
    small = text[: counters.LONGEST].lower()
    seen = None if counters.is_trouble(small) else counters.counted(small)
    return seen is not None and seen.kind != counters.BARE
