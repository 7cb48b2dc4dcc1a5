"""Who keeps the file lock that a process waits for, as /proc/locks tells.

Format: proc_locks(5) and ``lock_get_status`` in the kernel's fs/locks.c: ``1: FLOCK  ADVISORY  WRITE 708 08:01:1449 0
EOF``, and behind a lock those who wait for it, with its number and an arrow: ``1: -> FLOCK  ADVISORY  WRITE 709 …``. A
lock of an open file description has -1 for its process; a lock that another machine keeps is not in the list.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

from collectors.node import files
from collectors.node.processes.procfs import read_stat

ARROW = "->"
LIMIT = 1 << 20
"""Bytes of the list that are read: some 16,000 locks."""


class _Lock(NamedTuple):
    number: str
    waits: bool
    pid: int


def holder(pid: int, proc: str = "/proc") -> str:
    """``process 708 (python3)``; empty where nobody is known to keep it."""
    kept = _holder(files.text(files.read_or_none(proc + "/locks", LIMIT) or b""), pid)
    if kept is None:
        return ""
    stat = read_stat(proc, kept)
    return "process %d%s" % (kept, " (%s)" % stat.comm if stat is not None else ", which is gone")


def _holder(listed: str, pid: int) -> Optional[int]:
    """The process before the one that waits, with the same number and no arrow."""
    kept: Optional[_Lock] = None
    for line in listed.splitlines():
        lock = _parse(line)
        if lock is None:
            continue
        if not lock.waits:
            kept = lock
        elif lock.pid == pid and kept is not None and kept.number == lock.number:
            return kept.pid if kept.pid > 0 else None
    return None


def _parse(line: str) -> Optional[_Lock]:
    number, _, rest = line.partition(":")
    words = rest.split()
    waits = words[:1] == [ARROW]
    told = words[1:] if waits else words
    if not number.strip().isdigit() or len(told) < 4:
        return None
    try:
        return _Lock(number.strip(), waits, int(told[3]))
    except ValueError:
        return None
