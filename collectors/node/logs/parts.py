"""The parts of a log's reader, asked one by one: one that fails on a line costs the log no more than itself.

A part that raises, or needs over a second of CPU for one line, is asked no more, and that is said. One that never comes
back holds the interpreter: no other thread runs, no heartbeat is taken, and the alarm ends the node side. What dumps
the frames then (``collectors.node.watchdog``) knows files and lines of code, and nothing of logs. So a log and a part
are called through a frame that is named after them. Whoever started the node side reads both from the dump
(``collectors.fleet.held_up``), and tells the next one to leave them out.
"""

from __future__ import annotations

import time
from types import FunctionType
from typing import Any, Callable, Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Protocol, TypeVar

T = TypeVar("T")

OVERRUN = 1.0
"""CPU seconds that a part may need for one line; milliseconds are the rule."""
WHOLE = ""
"""The name of a part that stands for the whole log."""
_MARKED = 200
HELD = "held up hangtop's interpreter and ended it"
BEFORE = "had failed before hangtop's part here was started again, or " + HELD


class NamedFrame(Protocol):
    """Calls what it is given; a dump shows its name in the place of a file's."""

    def __call__(self, wanted: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """What ``wanted`` returns."""


class Unread(NamedTuple):
    """A part that is left out of a log from now on."""

    part: str
    why: str


class Parts:
    """The parts of the reader of one log; ``left_out`` are those that are not asked at all."""

    def __init__(self, left_out: Iterable[str] = ()) -> None:
        self._left_out = set(left_out)
        self._unsaid = [Unread(part, BEFORE) for part in sorted(self._left_out)]

    def ask(self, part: str, wanted: Callable[..., T], *arguments: Any) -> Optional[T]:
        """What ``wanted`` returns; None where the part is left out, or fails."""
        if part in self._left_out:
            return None
        answer: Optional[T] = None
        why = ""
        began = time.thread_time()
        try:
            answer = _frame("part:" + part)(wanted, *arguments)
        except Exception as error:  # noqa: BLE001 - one part must not cost the others the log
            why = "failed (%s: %s)" % (type(error).__name__, error)
        took = time.thread_time() - began
        if took > OVERRUN:
            why = "took %.1f s" % took
        if why:
            self._left_out.add(part)
            self._unsaid.append(Unread(part, why))
        return answer

    def unsaid(self) -> List[Unread]:
        """Parts that were left out since the last call."""
        unsaid, self._unsaid = self._unsaid, []
        return unsaid


def mark(path: str) -> str:
    """What stands for a log in a dump: the end of its path in hexadecimal, so that no sign in it means anything there.

    faulthandler shows 500 characters of a name.
    """
    return path.encode("utf-8", "surrogateescape")[-_MARKED:].hex()


def frame_of_log(path: str) -> NamedFrame:
    """Calls what it is given, with arguments, in a frame that names the log."""
    return _named("log:" + mark(path))


def left_out_of(path: str, unread: Iterable[Iterable[str]]) -> FrozenSet[str]:
    """The parts that are to be left out of a log, of (mark, part) pairs; :data:`WHOLE` for all of it."""
    its = mark(path)
    return frozenset(part for which, part in unread if which == its)


_frames: Dict[str, NamedFrame] = {}


def _frame(name: str) -> NamedFrame:
    frame = _frames.get(name)
    if frame is None:
        frame = _frames[name] = _named(name)
    return frame


def _call(wanted: Callable[..., T], *arguments: Any, **named: Any) -> T:
    return wanted(*arguments, **named)


def _named(name: str) -> NamedFrame:
    return FunctionType(_call.__code__.replace(co_filename=name), {})
