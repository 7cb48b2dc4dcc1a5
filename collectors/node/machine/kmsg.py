"""The kernel's log, read by whichever of its four doors is open to this user.

Each reader gives lines as ``(wall clock, text)``, oldest first: what the log still holds when it is opened, then what
comes. Kernel stamps count seconds since boot and drift from the wall clock over weeks; a line that comes while it is
watched shows by how much, and all stamps are put right by that.
"""

from __future__ import annotations

import errno
import os
import re
import time
from typing import List, NamedTuple, Optional, Sequence, Tuple

from collectors.node.child import Child, run
from collectors.node.files import text
from collectors.node.source import Absent

BACKLOG_LINES = 4000
"""Lines that one look takes: a long log is read over several looks."""
DRIFT = 3.0
"""Seconds by which a fresh line's stamp may be off before the clock is taken to have drifted."""

_KMSG = re.compile(rb"(\d+),\d+,(\d+),[^;]*;([^\n]*)")
_DMESG = re.compile(r"^(?:<\d+>)?\[ *(\d+\.\d+)\](?:\[[^\]]*\])? ?(.*)$")
_JOURNAL = re.compile(r"^(\d+\.\d+) \S+ kernel(?:\[\d+\])?: ?(.*)$")


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

    source = "dmesg"

    def __init__(self, path: str = "/dev/kmsg") -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._stamps = Stamps()
        self._caught_up = False
        self._first: Optional[bytes] = self._record()

    def read(self, now: float) -> List[KernelLine]:
        """Lines since the last call, at most ``BACKLOG_LINES``."""
        lines: List[KernelLine] = []
        while len(lines) < BACKLOG_LINES:
            record, self._first = self._first or self._record(), None
            if record is None:
                self._caught_up = True
                break
            parsed = parse_kmsg(record)
            if parsed is not None:
                stamp, said = parsed
                at = self._stamps.fresh(stamp, now) if self._caught_up else self._stamps.wall(stamp)
                lines.append(KernelLine(at, said))
        return lines

    def _record(self) -> Optional[bytes]:
        """Next record; None when there is none yet."""
        while True:
            try:
                return os.read(self._descriptor, 8192) or None
            except BlockingIOError:
                return None
            except OSError as error:
                if error.errno != errno.EPIPE:  # EPIPE: records were overwritten unread; the next read goes on behind
                    raise


def parse_kmsg(record: bytes) -> Optional[Tuple[float, str]]:
    """Seconds since boot and text of one record of /dev/kmsg (Documentation/ABI/testing/dev-kmsg)."""
    found = _KMSG.match(record)
    return None if found is None else (int(found.group(2)[:18]) / 1e6, text(found.group(3)))


class JournalReader:
    """``journalctl -k -f``: times are right, but its user must be of a group that may read the system's journal."""

    source = "journal"

    def __init__(self) -> None:
        last = run(["journalctl", "-k", "-q", "--no-pager", "-n", "1", "-o", "short-unix"], timeout=5.0)
        if parse_journal(text(last.stdout).partition("\n")[0]) is None:
            raise Absent("journalctl -k shows nothing")
        self._child = Child(["journalctl", "-k", "-q", "-f", "--no-pager", "-n", "5000", "-o", "short-unix"])
        self._rest = b""

    def read(self, _now: float) -> List[KernelLine]:
        """Lines since the last call. Raises :class:`Absent` when journalctl ended."""
        data = self._child.read()
        if not data and self._child.status is not None:
            raise Absent("journalctl ended with status %s" % self._child.status)
        *lines, self._rest = (self._rest + data).split(b"\n")
        found = (parse_journal(text(line)) for line in lines)
        return [line for line in found if line is not None]


def parse_journal(line: str) -> Optional[KernelLine]:
    """A line of ``journalctl -k -o short-unix``; None for its remarks (``-- Boot …``)."""
    found = _JOURNAL.match(line)
    return None if found is None else KernelLine(float(found.group(1)[:24]), found.group(2))


class DmesgPoller:
    """``dmesg`` asked again and again.

    Not ``dmesg -w``: with capabilities of its own, or under sudo, it loses its parent-death signal and would stay.
    """

    source = "dmesg"

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
