"""What the next node side of a node leaves out: what failed on a log in the last one, or held its interpreter up.

What failed was told (``log.unread``). What held the interpreter until the alarm ended it, the frames tell that it left.

The alarm lets Python's faulthandler write the frames of all threads to standard error (``collectors.node.watchdog``):
``Thread 0x… (most recent call first):`` and a line for each frame, ``  File "NAME", line N in FUNCTION``. The reader of
logs calls each part of itself in a frame that is named ``part:NAME``, within one of the log, ``log:MARK``
(``collectors.node.logs.parts``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from collectors.node.logs.parts import mark
from collectors.samples.logs import LogEvent

DUMP_BYTES = 64 << 10
"""Bytes of standard error that hold such a dump: some twenty threads of some thirty frames."""
STRIKES = 2
"""Ends with the same part at work after which it is left out. One proves nothing: the alarm also ends a node side that
is well and hears nothing from here, as when this machine was asleep."""
STRIKES_OF_LOG = 4
"""The same for a log, whichever part was at work."""
MOST = 256
"""Parts and logs of one node that are remembered."""

_THREAD = re.compile(rb"^(?:Current thread|Thread) 0x", re.MULTILINE)
_LOG = re.compile(rb'^  File "log:([0-9a-f]{2,400})", line', re.MULTILINE)
_NAME = re.compile(r"[a-z_]{1,40}")
_PART = re.compile(rb'^  File "part:([a-z_]{1,40})", line', re.MULTILINE)


class AtWork(NamedTuple):
    """A part of the reader, and the log that it was reading."""

    log: str
    """Its mark: the end of its path in hexadecimal."""
    part: str
    """Empty where no part by itself was at work: the log as a whole counts then."""


def at_work(dump: bytes) -> AtWork | None:
    """What the reader of logs was at when the frames were written; None where it was at rest, or there is no dump."""
    for thread in _THREAD.split(dump[-DUMP_BYTES:]):
        log = _LOG.search(thread)
        if log is not None:
            part = _PART.search(thread, 0, log.start())  # the innermost comes first
            return AtWork(log[1].decode(), part[1].decode() if part is not None else "")
    return None


class HeldUp:
    """Remembers what was at work when a node's side was ended by its alarm, and what is to be left out therefore."""

    def __init__(self) -> None:
        self._ends: Counter[AtWork] = Counter()
        self._failed: dict[AtWork, None] = {}

    def told(self, event: LogEvent) -> None:
        """Take what a node side said of a part that it asks no more (``log.unread``)."""
        part = event.data.get("part")
        if isinstance(part, str) and _NAME.fullmatch(part) and len(self._failed) < MOST:
            self._failed[AtWork(mark(event.source), part)] = None

    def note(self, dump: bytes) -> AtWork | None:
        """Take what an ended node side left on standard error; returns what was at work."""
        found = at_work(dump)
        if found is not None and (found in self._ends or len(self._ends) < MOST):
            self._ends[found] += 1
        return found

    def unread(self) -> list[AtWork]:
        """What the next node side shall leave out."""
        of_log: Counter[str] = Counter()
        for found, ends in self._ends.items():
            of_log[found.log] += ends
        parts = [found for found, ends in self._ends.items() if ends >= STRIKES]
        parts += [found for found in self._failed if found not in parts]
        return parts + [AtWork(log, "") for log, ends in of_log.items() if ends >= STRIKES_OF_LOG]


def noted(known: HeldUp | None, samples: Sequence[NamedTuple]) -> HeldUp | None:
    """The memory of a node, what these samples of it tell taken down; None where there is nothing to remember yet."""
    for sample in samples:
        if type(sample) is LogEvent and sample.kind == "log.unread":
            known = known or HeldUp()
            known.told(sample)
    return known
