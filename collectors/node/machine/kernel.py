"""Source ``kernel``: what the kernel says about GPUs, memory, tasks, links and file servers.

The kernel's log is read from /dev/kmsg, else by dmesg, else by dmesg under sudo where the user allows it. A reader
gives lines with their wall clock, oldest first: what the log still holds when it is opened, then what comes.
Kernel stamps count seconds since boot and drift from the wall clock over weeks; a line that comes while it is watched
shows by how much, and all stamps are put right by that. Where the log may not be read, the counters of the ranks'
control groups tell of kills for want of memory at least.
"""

from __future__ import annotations

import os
import re
import time
from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from collectors.node.child import run
from collectors.node.files import read_text, text
from collectors.node.logs.parser import kernel_event
from collectors.node.machine.oom_counts import OomCounts
from collectors.node.source import Absent, Denied, Shared, Source
from collectors.samples.control import Settings

HISTORY = 24 * 3600.0
"""Seconds before the start of which events are told: what was long before the job says nothing about it."""
FIRST = 500
"""Events of the history that are told at most, the latest ones."""
BACKLOG_LINES = 4000
"""Lines that one look takes: a long log is read over several looks."""
DRIFT = 3.0
"""Seconds by which a fresh line's stamp may be off before the clock is taken to have drifted."""

_KMSG = re.compile(rb"(\d+),\d+,(\d+),[^;]*;([^\n]*)")
_DMESG = re.compile(r"^(?:<\d+>)?\[ *(\d+\.\d+)\](?:\[[^\]]*\])? ?(.*)$")


class KernelLine(NamedTuple):
    """One line of the kernel log."""

    at: float
    text: str


class Stamps:
    """Turns seconds since boot into the wall clock."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def wall(self, since_boot: float) -> float:
        """Wall clock of a stamp."""
        return since_boot + self._offset

    def fresh(self, since_boot: float, now: float, age: float = 0.0) -> float:
        """Wall clock of a line that came within the last ``age`` seconds; learns from it how far the clock drifted."""
        if abs(self.wall(since_boot) - now) > age + DRIFT:
            self._offset = now - since_boot
        return self.wall(since_boot)


class KmsgReader:
    """/dev/kmsg: one record a read, without waiting. Raises :class:`OSError` when it may not be read."""

    def __init__(self, path: str = "/dev/kmsg") -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._stamps = Stamps()
        self._caught_up = False
        self._first = self._record()

    def read(self, now: float) -> List[KernelLine]:
        """Lines since the last call, at most ``BACKLOG_LINES``."""
        lines: List[KernelLine] = []
        while len(lines) < BACKLOG_LINES:
            record, self._first = self._first or self._record(), b""
            if not record:
                self._caught_up = True
                break
            parsed = parse_kmsg(record)
            if parsed is not None:
                stamp, said = parsed
                at = self._stamps.fresh(stamp, now) if self._caught_up else self._stamps.wall(stamp)
                lines.append(KernelLine(at, said))
        return lines

    def _record(self) -> bytes:
        """Next record; empty when there is none yet."""
        while True:
            try:
                return os.read(self._descriptor, 8192)
            except BlockingIOError:
                return b""
            except BrokenPipeError:  # records were overwritten unread; the next read goes on behind
                continue


def parse_kmsg(record: bytes) -> Optional[Tuple[float, str]]:
    """Seconds since boot and text of one record of /dev/kmsg (Documentation/ABI/testing/dev-kmsg)."""
    found = _KMSG.match(record)
    return None if found is None else (int(found.group(2)[:18]) / 1e6, text(found.group(3)))


class DmesgPoller:
    """``dmesg`` asked again and again.

    Not ``dmesg -w``: with capabilities of its own, or under sudo, it loses its parent-death signal and would stay.
    """

    def __init__(self, argv: Sequence[str], period: float) -> None:
        self._argv = list(argv)
        self._period = period
        self._next = 0.0
        self._stamps = Stamps()
        self._last = -1.0
        self._lines = self._ask()

    def read(self, now: float) -> List[KernelLine]:
        """Lines since the last call; asks only once a period."""
        moment = time.monotonic()
        if moment < self._next:
            return []
        watched = self._next > 0
        self._next = moment + self._period
        lines, self._lines = self._lines or self._ask(), []
        fresh = [line for line in lines if line[0] > self._last]
        self._last = max([self._last, *[stamp for stamp, _ in fresh]])
        if watched and fresh:
            self._stamps.fresh(fresh[-1][0], now, age=self._period)
        return [KernelLine(self._stamps.wall(stamp), said) for stamp, said in fresh]

    def _ask(self) -> List[Tuple[float, str]]:
        """All that dmesg says. Raises :class:`Absent` when that is nothing."""
        ended = run(self._argv, timeout=5.0, limit=16 << 20)
        lines = parse_dmesg(text(ended.stdout))
        if not lines:
            raise Absent(text(ended.stderr).strip().partition("\n")[0] or "%s shows nothing" % " ".join(self._argv))
        return lines


def parse_dmesg(said: str) -> List[Tuple[float, str]]:
    """Seconds since boot and text of dmesg's lines, raw (``-r``) or not."""
    found = (_DMESG.match(line) for line in said.splitlines())
    return [(float(match.group(1)[:24]), match.group(2)) for match in found if match]


class KernelSource(Source):
    """Typed events out of the kernel's log."""

    name = "kernel"
    period = 2.0
    deadline = 12.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys", kmsg: str = "/dev/kmsg") -> None:
        super().__init__(shared, proc, sys)
        self._kmsg = kmsg
        self._reader: Union[KmsgReader, DmesgPoller, None] = None
        self._refusals: List[str] = []
        self._sudo = False
        self._first = True
        self._kills = OomCounts(proc, sys)

    def configure(self, settings: Settings) -> None:
        """Try again when sudo has become allowed."""
        if settings.sudo and not self._sudo:
            self._refusals.clear()
        self._sudo = settings.sudo

    def look(self, now: float) -> Iterator[NamedTuple]:
        """Events since the last look. Raises :class:`Denied` when nobody lets us read the log: unknown, not clean."""
        if self._reader is None:
            try:
                self._reader = self._open()
            except Denied:
                yield from self._kills.look(self.shared.ranks, now)
                self.retry = self.period  # refused once, nothing is asked again but /dev/kmsg
                raise
            self.retry = KernelSource.retry
        try:
            lines = self._reader.read(now)
        except (Absent, OSError):
            self._reader = None
            raise
        found = [kernel_event(line.text, line.at, "dmesg") for line in lines if now - line.at < HISTORY]
        events = [event for event in found if event is not None]
        yield from events[-FIRST:] if self._first else events
        self._first = False

    def _open(self) -> Union[KmsgReader, DmesgPoller]:
        """First reader that is let in.

        Commands are tried once only, and sudo only where the user allowed it: it reports each refusal to the
        administrators.
        """
        try:
            return KmsgReader(self._kmsg)
        except OSError as error:
            refused = "%s: %s" % (self._kmsg, error.strerror)
        commands = [(["dmesg"], 5.0)] if not self._refusals else []
        if commands and os.getuid() and self._sudo:
            commands.append((["sudo", "-n", "dmesg"], 30.0))
        for words, period in commands:
            try:
                return DmesgPoller(words, period)
            except Absent as reason:
                self._refusals.append("%s: %s" % (" ".join(words), reason))
        ways_out = []
        if read_text(self.proc + "/sys/kernel/dmesg_restrict") == "1":
            ways_out.append("kernel.dmesg_restrict is 1: root may read it")
        if os.getuid() and not self._sudo:
            ways_out.append("sudo -n dmesg was not tried: --sudo allows it")
        why = "; ".join([refused, *self._refusals])
        raise Denied(why + (" (%s)" % "; ".join(ways_out) if ways_out else ""))
