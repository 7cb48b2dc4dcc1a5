"""Tools that may hang (nvidia-smi, ibstat, perfquery): never waited for long, never started twice at a time."""

from __future__ import annotations

import time
from typing import List, Optional, Sequence

from collectors.node.child import ERRORS, OUTPUT, Child, ChildEnded
from collectors.node.files import text

STRANGE = 10
"""Of so many characters more than one that cannot be shown is no text any more."""


def told(name: str, words: str, most: int) -> str:
    """The first of what a tool said, for people; of what is mostly no text that alone, by the tool's ``name``."""
    strange = sum(1 for letter in words if letter == "\ufffd" or not (letter.isprintable() or letter.isspace()))
    return "%s prints what is no text" % name if strange * STRANGE > len(words) else words[:most]


class ToolLines:
    """Whole lines out of chunks of bytes; a line without an end is cut off at ``limit`` bytes."""

    def __init__(self, limit: int = 65536) -> None:
        self._limit = limit
        self._rest = b""

    def feed(self, data: bytes) -> List[str]:
        """Lines that are complete now."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > self._limit:
            whole.append(self._rest[: self._limit])
            self._rest = b""
        return [text(line).rstrip("\r") for line in whole]

    def close(self) -> List[str]:
        """The last line, if its end was missing."""
        rest, self._rest = self._rest, b""
        return [text(rest)] if rest else []


class Query:
    """A question that is asked now and then, its answer collected whenever it comes, if it is not too long.

    Only one process of a question exists at a time: one that the driver holds in the kernel is killed, and nothing is
    asked until it is really gone.
    """

    def __init__(self, argv: Sequence[str], *, patience: float) -> None:
        self._argv = list(argv)
        self._patience = patience
        self._child: Optional[Child] = None
        self._asked = 0.0
        self._out = b""
        self._err = b""

    @property
    def waits(self) -> bool:
        """True while an answer is outstanding."""
        return self._child is not None

    def waited(self) -> float:
        """Seconds for which the outstanding answer has been waited for; 0 when none is."""
        return time.monotonic() - self._asked if self._child is not None else 0.0

    def ask(self) -> None:
        """Ask, unless the last question is still open. Raises :class:`~collectors.node.source.Absent`."""
        if self._child is None:
            self._out = self._err = b""
            self._asked = time.monotonic()
            self._child = Child(self._argv)

    def answer(self) -> Optional[ChildEnded]:
        """The answer once it is whole; a ``status`` of None says that it was waited for too long."""
        if self._child is None:
            return None
        status = self._child.status
        self._out += self._child.read()
        self._err = (self._err + self._child.read_errors())[-ERRORS:]
        if status is None:
            if self.waited() > self._patience or len(self._out) > OUTPUT:
                self._child.kill()
            return None
        killed = status == -9 and (self.waited() > self._patience or len(self._out) > OUTPUT)
        self.close()
        return ChildEnded(None if killed else status, self._out, self._err)

    def wait(self, seconds: float) -> Optional[ChildEnded]:
        """The answer if it becomes whole within ``seconds``."""
        until = time.monotonic() + seconds
        while True:
            ended = self.answer()
            if ended is not None or time.monotonic() > until:
                return ended
            time.sleep(0.01)

    def close(self) -> None:
        """Forget the question."""
        if self._child is not None:
            self._child.end()
            self._child = None
