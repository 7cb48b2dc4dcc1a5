"""Source ``kernel``: what the kernel says about GPUs, memory, tasks, links and file servers.

Where its log may not be read, the counters of the ranks' control groups tell of kills for want of memory at least.
"""

from __future__ import annotations

import os
from typing import Callable, Iterator, List, NamedTuple, Tuple, Union

from collectors.node.files import read_text
from collectors.node.logs.kernel_lines import event
from collectors.node.machine.kmsg import DmesgPoller, JournalReader, KmsgReader
from collectors.node.machine.oom_counts import OomCounts
from collectors.node.shared import Shared
from collectors.node.source import Absent, Denied, Source
from collectors.samples.control import Settings
from collectors.samples.logs import LogEvent

HISTORY = 24 * 3600.0
"""Seconds before the start of which events are told: what was long before the job says nothing about it."""
FIRST = 500
"""Events of the history that are told at most, the latest ones."""

Reader = Union[KmsgReader, JournalReader, DmesgPoller]


class KernelSource(Source):
    """Typed events out of the kernel's log."""

    name = "kernel"
    period = 2.0
    deadline = 12.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys", kmsg: str = "/dev/kmsg") -> None:
        super().__init__(shared, proc, sys)
        self._kmsg = kmsg
        self._reader: Union[Reader, None] = None
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
        found = [event(line.text, line.at, self._reader.source) for line in lines if now - line.at < HISTORY]
        events: List[LogEvent] = [item for item in found if item is not None]
        yield from events[-FIRST:] if self._first else events
        self._first = False

    def _open(self) -> Reader:
        """First reader that is let in.

        Commands are tried once only, and sudo only where the user allowed it: it reports each refusal to the
        administrators.
        """
        try:
            return KmsgReader(self._kmsg)
        except OSError as error:
            refusals = ["%s: %s" % (self._kmsg, error.strerror)]
        if not self._refusals:
            doors: Tuple[Tuple[str, Callable[[], Reader]], ...] = (
                ("journalctl -k", JournalReader),
                ("dmesg", lambda: DmesgPoller(["dmesg"], 5.0)),
                ("sudo -n dmesg", lambda: DmesgPoller(["sudo", "-n", "dmesg"], 30.0)),
            )
            for name, opened in doors[: 3 if os.getuid() and self._sudo else 2]:
                try:
                    return opened()
                except Absent as reason:
                    self._refusals.append("%s: %s" % (name, reason))
        restricted = read_text(self.proc + "/sys/kernel/dmesg_restrict") == "1"
        why = "; ".join([*refusals, *self._refusals])
        ways_out = ["kernel.dmesg_restrict is 1: root may read it"] if restricted else []
        if os.getuid() and not self._sudo:
            ways_out.append("sudo -n dmesg was not tried: --sudo allows it")
        raise Denied(why + (" (%s)" % "; ".join(ways_out) if ways_out else ""))
