"""What moves in a rank and in the processes that it started. Each file that is read costs CPU on the node.

Of those that have ended and that the rank has not waited for only their parent is left to find them by. A rank that
waits for an answer of one waits in vain, and how it ended is told nowhere else.
"""

from __future__ import annotations

import os
from typing import Dict, Iterator, NamedTuple, Optional, Set, Tuple

from collectors.node.files import list_folder, read_or_none
from collectors.node.processes.procfs import (
    ProcessStatus,
    Stat,
    parse_io,
    parse_schedstat,
    parse_stat,
    parse_syscall,
    parse_wchan,
    read_stat,
)
from collectors.samples.ranks import Helper, HelperGone, RankPulse

THREADS = 512
"""Threads of a process that are looked at for one that is left."""
SIZE = 8192
"""Bytes of one read: what is read this way is a quarter of it, and given whole by one read."""
PROCESSES = 32
"""Processes whose files are kept open; of further ones they are opened each time."""
MOST = 64
"""Children that are looked at: a rank that waits for none of what it starts may leave thousands."""


class HeldFiles:
    """Files of one process in /proc that are read every second: kept open, a look is one system call instead of four.

    They stay those of this very process when its pid becomes another's.
    """

    _processes = 0

    __slots__ = ("_base", "_files")

    def __init__(self, proc: str, pid: int) -> None:
        self._base = "%s/%d/" % (proc, pid)
        self._files: Optional[Dict[str, int]] = None

    def keep(self) -> None:
        """Keep files open from now on, if not too many are."""
        if self._files is None and HeldFiles._processes < PROCESSES:
            HeldFiles._processes += 1
            self._files = {}

    def read(self, name: str) -> Optional[bytes]:
        """Contents of a file; None when the process is gone, or where it may not be read."""
        files = self._files
        if files is None:
            return read_or_none(self._base + name)
        try:
            file = files.get(name)
            if file is None:
                file = files[name] = os.open(self._base + name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            return os.pread(file, SIZE, 0)
        except OSError:
            return None

    def close(self) -> None:
        """Let go of them."""
        files, self._files = self._files, None
        if files is not None:
            HeldFiles._processes -= 1
            for file in files.values():
                os.close(file)


def rank_pulse(
    proc: str,
    pid: int,
    held: HeldFiles,
    stat: Stat,
    status: ProcessStatus,
    helpers_cpu: float,
    helpers_bytes: Optional[int] = None,
) -> RankPulse:
    """Everything that moves in a rank; what may not be read is unknown."""
    io = parse_io(held.read("io") or b"")
    state, wchan, syscall = stat.state, held.read("wchan"), held.read("syscall")
    if state in "ZX" and stat.threads > 1:
        state, wchan, syscall = _thread_left(proc, pid) or (state, wchan, syscall)
    return RankPulse(
        pid=pid,
        state=state,
        wchan=parse_wchan(wchan or b""),
        syscall=parse_syscall(syscall or b""),
        cpu_user=stat.cpu_user,
        cpu_system=stat.cpu_system,
        voluntary_switches=status.voluntary_switches,
        involuntary_switches=status.involuntary_switches,
        rss=stat.rss,
        threads=stat.threads,
        read_bytes=io.read_bytes,
        written_bytes=io.written_bytes,
        helpers_cpu=round(helpers_cpu, 2),
        main_cpu=parse_schedstat(held.read("schedstat") or b""),
        helpers_bytes=helpers_bytes,
    )


def _thread_left(proc: str, pid: int) -> Optional[Tuple[str, Optional[bytes], Optional[bytes]]]:
    """State, wchan and syscall of a thread of a process whose first one has ended; one that cannot be killed first.

    The kernel shows such a process as a zombie. As a rule it was killed, and a thread that is stuck in a driver keeps
    it, with its memory and its GPU.
    """
    found: Dict[str, str] = {}
    for name in list_folder("%s/%d/task" % (proc, pid))[:THREADS]:
        folder = "%s/%d/task/%s/" % (proc, pid, name)
        stat = parse_stat(read_or_none(folder + "stat") or b"")
        if stat is not None and stat.state not in "ZX":
            found.setdefault(stat.state, folder)
    if not found:
        return None
    state = "D" if "D" in found else next(iter(found))
    return state, read_or_none(found[state] + "wchan"), read_or_none(found[state] + "syscall")


def bytes_moved(proc: str, pid: int) -> Optional[int]:
    """Bytes that a process has read and written; None where that may not be read."""
    io = parse_io(read_or_none("%s/%d/io" % (proc, pid)) or b"")
    return None if io.read_bytes is None or io.written_bytes is None else io.read_bytes + io.written_bytes


class Zombies:
    """Those of one rank that were told of; found among the children of its main thread (``children`` in proc(5))."""

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
        children = (read_or_none("%s/%d/task/%d/children" % (proc, rank_pid, rank_pid)) or b"").split()
        for pid in [int(word) for word in children[-MOST:] if word.isdigit()]:
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
