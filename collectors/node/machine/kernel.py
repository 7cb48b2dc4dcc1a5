"""Source ``kernel``: kernel log events about GPUs, memory, tasks, links and file servers.

The log is read from /dev/kmsg, else by dmesg under sudo if the user allows it: no other source has the Xids from before
hangtop's start. Kernel timestamps count seconds since boot and drift from the wall clock over weeks, so a line that
arrives while the log is watched gets the current time. If the log is unreadable, the counters of the ranks' cgroups
still show OOM kills.
"""

from __future__ import annotations

import os
import re
import time
from typing import Iterator, List, NamedTuple, Optional, Tuple

from collectors.node.child import output
from collectors.node.files import read_text, text
from collectors.node.logs.parser import kernel_events
from collectors.node.machine.oom_counts import OomCounts
from collectors.node.source import Denied, Shared, Source, Unavailable
from collectors.samples.stream import Settings

HISTORY = 24 * 3600.0
"""Seconds before hangtop's start; older events are dropped, because they do not concern the job."""
FIRST = 500
"""Events sent by the first read at most, the latest ones."""
BACKLOG_LINES = 4000
"""Lines taken by one read; a longer log takes several."""
DMESG = ("sudo", "-n", "dmesg")
"""Not ``dmesg -w``: under sudo it loses its parent-death signal and would outlive us."""
DMESG_EVERY = 30.0

_KMSG = re.compile(rb"(\d+),\d+,(\d+),[^;]*;([^\n]*)")
_DMESG = re.compile(r"^(?:<\d+>)?\[ *(\d+\.\d+)\](?:\[[^\]]*\])? ?(.*)$")

KernelLine = Tuple[float, str]
"""Seconds since boot, and the text."""


def parse_kmsg(record: bytes) -> Optional[KernelLine]:
    """One record of /dev/kmsg (Documentation/ABI/testing/dev-kmsg)."""
    found = _KMSG.match(record)
    return None if found is None else (int(found.group(2)[:18]) / 1e6, text(found.group(3)))


def parse_dmesg(said: str) -> List[KernelLine]:
    """Lines of dmesg's output, raw (``-r``) or not."""
    found = (_DMESG.match(line) for line in said.splitlines())
    return [(float(match.group(1)[:24]), match.group(2)) for match in found if match]


class KernelSource(Source):
    """Typed events from the kernel log."""

    name = "kernel"
    period = 2.0
    deadline = 12.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys", kmsg: str = "/dev/kmsg") -> None:
        super().__init__(shared, proc, sys)
        self._path = kmsg
        self._kmsg = -1
        self._sudo = False
        self._refused = ""
        """Why sudo's dmesg failed. It is then not tried again: sudo reports each refusal to the administrators."""
        self._dmesg_at = 0.0
        self._last = -1.0
        """Timestamp of dmesg's last line."""
        self._first = True
        self._caught_up = False
        self._kills = OomCounts(proc, sys)

    def configure(self, settings: Settings) -> None:
        """Try again when sudo has become allowed."""
        if settings.sudo and not self._sudo:
            self._refused = ""
        self._sudo = settings.sudo

    def read(self, now: float) -> Iterator[NamedTuple]:
        """Events since the last read. Raises :class:`Denied` if the log is unreadable, which does not mean clean."""
        self.retry = self.period
        try:
            lines, fresh = self._lines(), self._caught_up
        except Denied:
            yield from self._kills.read(self.shared.ranks, now)
            raise
        booted = time.time() - time.monotonic()
        stamped = [(now if fresh else booted + stamp, said) for stamp, said in lines]
        events = kernel_events([(at, said) for at, said in stamped if now - at < HISTORY], "dmesg")
        yield from events[-FIRST:] if self._first else events
        self._first = False
        self._caught_up = fresh or len(lines) < BACKLOG_LINES

    def _lines(self) -> List[KernelLine]:
        """Lines since the last call, oldest first. Raises :class:`Denied`."""
        try:
            if self._kmsg < 0:
                self._kmsg = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            return self._records()
        except OSError as error:
            why = "%s: %s" % (self._path, error.strerror)
        if self._sudo and os.getuid() and not self._refused:
            lines = self._dmesg()
            if not self._refused:
                return lines
        ways_out = []
        if read_text(self.proc + "/sys/kernel/dmesg_restrict") == "1":
            ways_out.append("kernel.dmesg_restrict is 1: root may read it")
        if os.getuid() and not self._sudo:
            ways_out.append("sudo -n dmesg was not tried: --sudo allows it")
        why = "; ".join(filter(None, [why, self._refused]))
        raise Denied(why + (" (%s)" % "; ".join(ways_out) if ways_out else ""))

    def _records(self) -> List[KernelLine]:
        """New records of /dev/kmsg, one per read, without waiting."""
        lines: List[KernelLine] = []
        while len(lines) < BACKLOG_LINES:
            try:
                line = parse_kmsg(os.read(self._kmsg, 8192))
            except BlockingIOError:
                break
            except BrokenPipeError:  # records were overwritten unread; the next read continues after them
                continue
            lines += [line] if line is not None else []
        return lines

    def _dmesg(self) -> List[KernelLine]:
        moment = time.monotonic()
        if moment < self._dmesg_at:
            return []
        self._dmesg_at = moment + DMESG_EVERY
        try:
            printed, why = output(*DMESG, seconds=5.0)
        except Unavailable as reason:
            printed, why = "", str(reason)
        lines = parse_dmesg(printed)
        self._refused = "" if lines else why or "sudo -n dmesg shows nothing"
        fresh = [line for line in lines if line[0] > self._last]
        self._last = max([self._last, *[stamp for stamp, _ in fresh]])
        return fresh
