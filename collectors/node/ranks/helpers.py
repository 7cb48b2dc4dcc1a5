"""Processes that a rank started: what moves in them, and those that have ended and that it has not waited for.

The environment of an ended process is gone, so that only its parent leads to it. A rank that waits for an answer of one
waits in vain, and how it ended is told nowhere else. Only those that its main thread started are found (``children`` in
proc(5)).
"""

from __future__ import annotations

from typing import Iterator, List, NamedTuple, Optional, Set

from collectors.node.files import read_or_none
from collectors.node.processes.procfs import Stat, parse_io, parse_wchan, read_stat
from collectors.samples.ranks import Helper, HelperGone


def bytes_moved(proc: str, pid: int) -> Optional[int]:
    """Bytes that a process has read and written; None where that may not be read."""
    io = parse_io(read_or_none("%s/%d/io" % (proc, pid)) or b"")
    return None if io.read_bytes is None or io.written_bytes is None else io.read_bytes + io.written_bytes


def helper_sample(proc: str, pid: int, owner: int, role: str, stat: Stat, command: str) -> Helper:
    """What moves in a helper."""
    return Helper(
        pid=pid,
        rank_pid=owner,
        role=role,
        state=stat.state,
        wchan=parse_wchan(read_or_none("%s/%d/wchan" % (proc, pid)) or b""),
        cpu=round(stat.cpu_user + stat.cpu_system, 2),
        rss=stat.rss,
        command=command,
    )


MOST = 64
"""Processes that are looked at: a rank that waits for none of what it starts may leave thousands."""


class Zombies:
    """Those of one rank that were told of."""

    __slots__ = ("_due", "_told")

    def __init__(self) -> None:
        self._due = 0.0
        self._told: Set[int] = set()

    def due(self, moment: float, every: float) -> bool:
        """Whether it is time to look again; if so, the next time is ``every`` seconds later."""
        if moment < self._due:
            return False
        self._due = moment + every
        return True

    def look(self, proc: str, rank_pid: int, now: float) -> Iterator[NamedTuple]:
        """A :class:`Helper` in state Z for each that is new, a :class:`HelperGone` for each that is no longer there."""
        found: Set[int] = set()
        for pid in _children(proc, rank_pid):
            stat = read_stat(proc, pid)
            if stat is None or not stat.has_ended or stat.parent != rank_pid:
                continue
            found.add(pid)
            if pid not in self._told:
                cpu = round(stat.cpu_user + stat.cpu_system, 2)
                yield Helper(pid, rank_pid, "helper", stat.state, "", cpu, 0, stat.comm, stat.wait_status)
        for pid in sorted(self._told - found):
            yield HelperGone(pid, rank_pid, now)
        self._told = found


def _children(proc: str, pid: int) -> List[int]:
    words = (read_or_none("%s/%d/task/%d/children" % (proc, pid, pid)) or b"").split()
    return [int(word) for word in words[-MOST:] if word.isdigit()]
