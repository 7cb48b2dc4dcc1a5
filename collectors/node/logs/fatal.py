"""Deaths that are no Python exceptions: faulthandler's dumps, C++ terminate, a shell's words for a signal."""

from __future__ import annotations

import re
from typing import Iterator, List, Optional, Tuple

from collectors.node.logs import exceptions
from collectors.node.logs.said import Data, Family, Said

_TERMINATE = re.compile(
    r"terminate called (?:after throwing an instance of '(?P<what>[^']*)'|without an active exception|recursively)"
)
_WHAT = re.compile(r"\bwhat\(\):\s*(?P<what>.*)", re.S)
_WORDS: Tuple[Tuple[str, "re.Pattern[str]"], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        (
            "SEGV",
            (
                r"(?:^|[:\s\d])Segmentation fault(?:\s*\(core dumped\)|\s|\.|$)|Signal: Segmentation fault"
                r"|Caught signal 11\b"
            ),
        ),
        ("BUS", r"(?:^|\s)Bus error(?:\s*\(core dumped\)|\s{2,}|$)|Signal: Bus error|Caught signal 7\b"),
        (
            "ABRT",
            (
                r"(?:^|\s)Aborted(?:\s*\(core dumped\)|\s{4,}|$)|Signal: Aborted|\*\*\* Aborted at|SIGABRT \(@"
                r"|Caught signal 6\b"
            ),
        ),
        ("FPE", r"Floating point exception(?:\s*\(core dumped\)|$)"),
        ("KILL", r"(?:^|\s\d+ |\d: |line \d+:\s+\d+ )Killed(?:\s{2,}.*|\s*)$"),
        ("TERM", r"(?:^|\s\d+ |line \d+:\s+\d+ )Terminated(?:\s{2,}.*|\s*)$"),
    )
)
FATAL = re.compile(r"Fatal Python error: (?P<error>[^\r\n]*)")
_THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):")
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+) in (?P<function>.*)$')


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    terminate = _TERMINATE.search(text)
    if terminate is not None:
        message = _WHAT.search(text)
        thrown = terminate.group("what") or "terminate called"
        yield Said(
            "process.signal",
            {"signal": "ABRT", "what": thrown + (": " + message.group("what").strip()[:1000] if message else "")},
        )
        return
    for name, pattern in _WORDS:
        if pattern.search(text) and "killed by signal" not in text and "Fatal Python error" not in text:
            yield Said("process.signal", {"signal": name, "what": text.strip()[:200]})
            return


class FatalBlock:
    """A dump of faulthandler: "Fatal Python error" and the stacks of all threads, innermost frame first."""

    def __init__(self, error: str) -> None:
        self.over = False
        self._error = error
        self._current: Optional[List[Tuple[str, int, str]]] = None
        self._done: List[Tuple[str, int, str]] = []
        self._lines: List[str] = ["Fatal Python error: " + error]

    def take(self, text: str) -> bool:
        """Whether the line belongs to the dump."""
        frame = _FRAME.match(text)
        taken = True
        if frame is not None:
            if self._current is not None and len(self._current) < 200:
                self._current.append((frame.group("file"), int(frame.group("line")[:9]), frame.group("function")))
        elif _THREAD.match(text):
            self._current = [] if text.startswith("Current thread") and not self._done else None
            if self._current is not None:
                self._done = self._current
        elif text.strip() and not text.startswith(
            (" ", "Python runtime state", "Extension modules", "<no Python frame>")
        ):
            taken = False
            self.over = True
        if taken and len(self._lines) < 60:
            self._lines.append(text)
        return taken

    @property
    def text(self) -> str:
        """The beginning of the dump."""
        return "\n".join(self._lines)[:4000].rstrip()

    def end(self) -> Said:
        """The event."""
        data: Data = {"error": self._error}
        if self._done:
            data.update(exceptions.framed(list(reversed(self._done))))
            data.pop("launcher", None)
        return Said("python.fatal", data)


FAMILY = Family(
    "fatal",
    (
        b"terminate called",
        b"Segmentation fault",
        b"Bus error",
        b"Aborted",
        b"SIGABRT",
        b"Floating point exc",
        b"Caught signal ",
        b"Killed",
        b"Terminated",
    ),
    read,
    re.compile(r"terminate called after throwing an instance of '[^']*'\s*$"),
)
