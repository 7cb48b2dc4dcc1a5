"""Whose a flight recorder's dump is that lies there: its name has a rank, and what is in it leads to the process.

Each entry has the ``thread_id`` of who made it (torch 2.8 and later): for glibc that is the address of the thread's own
block, which only that process has mapped there, as the kernel puts each program's memory somewhere else. Processes that
were forked, and not started anew, share such an address with whom they were forked from: they are left as they are.
"""

from __future__ import annotations

import os
import re
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple

from collectors.node.files import list_folder, opened, read_or_none, regular
from collectors.node.nccl.recorder_places import here, stems
from collectors.node.processes.environ import parse
from collectors.node.processes.procfs import parse_status

HEAD = 256 << 10
"""Bytes of a dump that are read: the first entry follows the groups."""
FILES = 512
"""Dumps that are looked at at a time."""
MAPS_LIMIT = 8 << 20

_NUMBER = re.compile(r"\d{1,7}")
_THREAD = re.compile(rb"thread_id.{0,16}?(?<!\d)(\d{10,20})(?!\d)", re.DOTALL)
_WRITABLE = re.compile(rb"^([0-9a-f]{1,16})-([0-9a-f]{1,16}) rw", re.MULTILINE)


class LyingDump(NamedTuple):
    """A dump that lies there."""

    rank: int
    path: str
    at: float
    """When it was changed last."""
    uid: int


def ranks_by_dumps(started: Mapping[int, float], proc: str = "/proc") -> Dict[int, int]:
    """Ranks by pid of those of these processes that wrote exactly one dump since they began (wall clock)."""
    mapped: Dict[int, List[Tuple[int, int]]] = {}
    found: Dict[int, Set[int]] = {}
    for places, pids in _by_place(started, proc).items():
        for dump in _dumps(*places):
            written = [pid for pid, uid in pids.items() if dump.uid == uid and dump.at >= started[pid]]
            thread = _thread_of(dump) if written else None
            if thread is None:
                continue
            for pid in written:
                if pid not in mapped:
                    mapped[pid] = _writable(proc, pid)
            whose = [pid for pid in written if any(begin <= thread < end for begin, end in mapped[pid])]
            if len(whose) == 1:
                found.setdefault(whose[0], set()).add(dump.rank)
    told = {pid: next(iter(ranks)) for pid, ranks in found.items() if len(ranks) == 1}
    return {pid: rank for pid, rank in told.items() if list(told.values()).count(rank) == 1}


def _by_place(pids: Mapping[int, float], proc: str) -> Dict[Tuple[str, str], Dict[int, int]]:
    """(folder, beginning of the names) of dumps → the processes that would write there, with their users."""
    found: Dict[Tuple[str, str], Dict[int, int]] = {}
    for pid in pids:
        base = "%s/%d" % (proc, pid)
        status = parse_status(read_or_none(base + "/status") or b"", pid)
        env = read_or_none(base + "/environ")
        if status is None or env is None:
            continue
        for stem in stems(parse(env)):
            folder, _, beginning = here(pid, stem, proc).rpartition("/")
            found.setdefault((folder, beginning), {})[pid] = status.uid
    return found


def _dumps(folder: str, beginning: str) -> Iterator[LyingDump]:
    left = FILES
    for name in list_folder(folder):
        if left and name.startswith(beginning) and _NUMBER.fullmatch(name[len(beginning) :]):
            left -= 1
            path = folder + "/" + name
            try:
                status = os.stat(path)
            except OSError:
                continue  # taken away since
            yield LyingDump(int(name[len(beginning) :]), path, status.st_mtime, status.st_uid)


def _thread_of(dump: LyingDump) -> Optional[int]:
    """The thread of its first entry; None where it names none, or is no longer the file that it was."""
    try:
        file = opened(dump.path, lambda status: regular(status) and status.st_uid == dump.uid)
    except OSError:
        return None
    try:
        thread = _THREAD.search(os.pread(file, HEAD, 0))
    except OSError:
        return None
    finally:
        os.close(file)
    return int(thread.group(1)) if thread is not None else None


def _writable(proc: str, pid: int) -> List[Tuple[int, int]]:
    maps = read_or_none("%s/%d/maps" % (proc, pid), MAPS_LIMIT) or b""
    return [(int(begin, 16), int(end, 16)) for begin, end in _WRITABLE.findall(maps)]
