"""What moves in a rank and in the processes that it started."""

from __future__ import annotations

from typing import Dict, Iterator, NamedTuple, Optional, Set, Tuple

from collectors.node.files import read_or_none
from collectors.node.processes.procfs import (
    ProcessStatus,
    Stat,
    parse_io,
    parse_syscall,
    parse_wchan,
    read_stat,
    threads,
)
from collectors.node.ranks.job_process import HeldFiles
from collectors.samples.ranks import Helper, HelperGone, RankPulse

MOST = 64
"""Children that are looked at: a rank that waits for none of what it starts may leave thousands."""


def rank_pulse(proc: str, pid: int, held: HeldFiles, stat: Stat, status: ProcessStatus) -> RankPulse:
    """What moves in a rank's own process; what may not be read is unknown."""
    io, wchan, syscall = map(held.read, ("io", "wchan", "syscall"))
    (read, written), state = parse_io(io), stat.state
    if state in "ZX" and stat.threads > 1:
        state, wchan, syscall = _thread_left(proc, pid) or (state, wchan, syscall)
    return RankPulse(
        pid=pid,
        state=state,
        wchan=parse_wchan(wchan),
        syscall=parse_syscall(syscall),
        cpu_user=stat.cpu_user,
        cpu_system=stat.cpu_system,
        voluntary_switches=status.voluntary_switches,
        involuntary_switches=status.involuntary_switches,
        rss=stat.rss,
        threads=stat.threads,
        read_bytes=read,
        written_bytes=written,
        helpers_cpu=0.0,
    )


def _thread_left(proc: str, pid: int) -> Optional[Tuple[str, bytes, bytes]]:
    """State, wchan and syscall of a thread of a process whose first one has ended; one that cannot be killed first.

    The kernel shows such a process as a zombie. As a rule it was killed, and a thread that is stuck in a driver keeps
    it, with its memory and its GPU.
    """
    found: Dict[str, str] = {}
    for folder, stat in threads(proc, pid):
        if stat.state not in "ZX":
            found.setdefault(stat.state, folder)
    if not found:
        return None
    state = "D" if "D" in found else next(iter(found))
    return state, *(read_or_none("%s/%s" % (found[state], name)) or b"" for name in ("wchan", "syscall"))  # type: ignore[return-value]


def bytes_moved(proc: str, pid: int) -> Optional[int]:
    """Bytes that a process has read and written; None where that may not be read."""
    read, written = parse_io(read_or_none("%s/%d/io" % (proc, pid)) or b"")
    return None if read is None or written is None else read + written


def zombies(proc: str, rank_pid: int, told: Set[int], now: float) -> Iterator[NamedTuple]:
    """Children of a rank's main thread that have ended and that it has not waited for; ``told`` is brought up to date.

    A rank that waits for an answer of one waits in vain, and how it ended is told nowhere else. A :class:`Helper` in
    state Z for each that is new, a :class:`HelperGone` for each that is no longer there.
    """
    found: Set[int] = set()
    children = (read_or_none("%s/%d/task/%d/children" % (proc, rank_pid, rank_pid)) or b"").split()
    for pid in [int(word) for word in children[-MOST:] if word.isdigit()]:
        stat = read_stat(proc, pid)
        if stat is None or not stat.has_ended or stat.parent != rank_pid:
            continue
        found.add(pid)
        if pid not in told:
            cpu = round(stat.cpu_user + stat.cpu_system, 2)
            yield Helper(pid, rank_pid, "helper", stat.state, "", cpu, 0, stat.comm, stat.wait_status)
    for pid in sorted(told - found):
        yield HelperGone(pid, rank_pid, now)
    told.clear()
    told.update(found)
