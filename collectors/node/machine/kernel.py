"""Source ``kernel``: what the kernel says about GPUs, memory, tasks, links and file servers, by /dev/kmsg.

Kernel stamps count seconds since boot and drift from the wall clock over weeks: a line that comes while the log is
watched has the time of now. Where the log may not be read, the counters of the ranks' control groups tell of kills for
want of memory at least.
"""

from __future__ import annotations

import os
import re
import time
from typing import Iterator, List, NamedTuple, Optional, Tuple

from collectors.node.files import read_text, text
from collectors.node.logs.parser import kernel_events
from collectors.node.machine.oom_counts import OomCounts
from collectors.node.source import Denied, Shared, Source

HISTORY = 24 * 3600.0
"""Seconds before the start of which events are told: what was long before the job says nothing about it."""
FIRST = 500
"""Events of the history that are told at most, the latest ones."""
BACKLOG_LINES = 4000
"""Lines that one look takes: a long log is read over several looks."""

_KMSG = re.compile(rb"(\d+),\d+,(\d+),[^;]*;([^\n]*)")

Line = Tuple[float, str]
"""Seconds since boot, and what is said."""


def parse_kmsg(record: bytes) -> Optional[Line]:
    """One record of /dev/kmsg (Documentation/ABI/testing/dev-kmsg)."""
    found = _KMSG.match(record)
    return None if found is None else (int(found.group(2)[:18]) / 1e6, text(found.group(3)))


class KernelSource(Source):
    """Typed events out of the kernel's log."""

    name = "kernel"
    period = 2.0
    retry = 2.0
    deadline = 12.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys", kmsg: str = "/dev/kmsg") -> None:
        super().__init__(shared, proc, sys)
        self._path = kmsg
        self._kmsg = -1
        self._first = True
        self._caught_up = False
        self._kills = OomCounts(proc, sys)

    def look(self, now: float) -> Iterator[NamedTuple]:
        """Events since the last look. Raises :class:`Denied` when nobody lets us read the log: unknown, not clean."""
        try:
            lines, fresh = self._records(), self._caught_up
        except OSError as error:
            yield from self._kills.look(self.shared.ranks, now)
            restricted = read_text(self.proc + "/sys/kernel/dmesg_restrict") == "1"
            why = " (kernel.dmesg_restrict is 1: root may read it)" if restricted else ""
            raise Denied("%s: %s%s" % (self._path, error.strerror, why)) from None
        booted = time.time() - time.monotonic()
        stamped = [(now if fresh else booted + stamp, said) for stamp, said in lines]
        events = kernel_events([(at, said) for at, said in stamped if now - at < HISTORY], "dmesg")
        yield from events[-FIRST:] if self._first else events
        self._first = False
        self._caught_up = fresh or len(lines) < BACKLOG_LINES

    def _records(self) -> List[Line]:
        """Records since the last call, oldest first, one a read, without waiting. Raises :class:`OSError`."""
        if self._kmsg < 0:
            self._kmsg = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        lines: List[Line] = []
        while len(lines) < BACKLOG_LINES:
            try:
                line = parse_kmsg(os.read(self._kmsg, 8192))
            except BlockingIOError:
                break
            except BrokenPipeError:  # records were overwritten unread; the next read goes on behind
                continue
            lines += [line] if line is not None else []
        return lines
