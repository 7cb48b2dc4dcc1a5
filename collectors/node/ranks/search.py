"""Finds the processes of a job among thousands of others.

They are those that carry a rank in their environment, and those that have a training library mapped. Each process is
read once, and every time while it is young: it may still exec what it wraps. After that its ``stat`` is read
in turn, a few processes a time, and the rest only when its name is another or it has grown as by the import of a
training library: a node full of other processes costs next to nothing. ``/proc/PID/maps`` of a process with torch is
some 100 KB that the kernel writes with the memory map held, so that it is read only of large processes.
"""

from __future__ import annotations

import os
import re
import time
from typing import AbstractSet, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, Union

from collectors.node.blocking import BlockingGuard
from collectors.node.files import read
from collectors.node.processes.commands import MARK, is_own
from collectors.node.processes.environ import (
    RankEnvironment,
    may_have_rank,
    parse,
    presentable,
    rank_of,
    rank_of_member,
)
from collectors.node.processes.procfs import CLOCK_TICKS, Stat, read_stat, split_zeros
from collectors.node.ranks.job_process import JobProcess

LEAST = 40 << 20
"""Resident bytes under which no process has torch, JAX or NCCL in use: importing one takes more than twice as much."""
GROWN = 24 << 20
"""Resident bytes by which a process grows when it imports one."""
MAPS_LIMIT = 8 << 20

_LIBRARIES = (
    ("torch", re.compile(rb"/(?:libtorch(?:_cpu|_cuda|_python|_hip)?|libc10)\.so")),
    ("jax", re.compile(rb"/jaxlib/")),
    ("nccl", re.compile(rb"/libnccl\.so")),
)
TOOLS = frozenset("py-spy nsys ncu cuda-gdb".split())
"""Programs that map the libraries of the process that they look into, as the kernel cuts their names."""
_PYTHON = ("python", "pt_")
"""Beginnings of the names of processes of Python and of torch."""
_IDLE = "ray::IDLE"
"""Title of a worker of Ray that waits to be given work."""

YOUNG = 8.0
"""Seconds from its start on during which a process is looked at every time."""
RELOOK = 30.0
"""Seconds after which a process that was no rank is looked at again, turns permitting."""
BATCH = 64
"""Processes that are judged at a time: what hangs at one of them keeps the answers of those behind it."""
TURNS = 24
"""Old processes that are looked at again at a time."""
ONLY = "HANGTOP_ONLY"
"""``KEY=VALUE`` in the node side's own environment: whose ranks it sees when one machine plays several nodes."""


class _Unrelated(NamedTuple):
    """A process as it was when it was found to be of no job."""

    start_ticks: int
    comm: str
    rss: int
    """0 where a file of it gave no answer: it is looked at again then."""
    old_at: float
    again: float
    """When it is no longer young, and when its turn comes again (monotonic clock)."""

    def is_still(self, stat: Stat) -> bool:
        """Whether a process runs what it ran then, and has not grown since."""
        return self[:2] == (stat.start_ticks, stat.comm) and stat.rss < self.rss + GROWN


class _Judged(NamedTuple):
    """What one process was found to be."""

    env: Dict[str, str]
    rank: Optional[RankEnvironment]
    """None for one that is of no job."""
    library: str


class Search:
    """Remembers what is of no job."""

    def __init__(self, proc: str, guard: BlockingGuard) -> None:
        self._proc = proc
        self._guard = guard
        self._unrelated: Dict[int, _Unrelated] = {}
        self._job: Optional[Tuple[str, str]] = None
        only = os.environ.get(ONLY, "").partition("=")
        self._only = (only[0], only[2]) if only[1] else None
        self.refused: Set[int] = set()
        """Python processes whose environment may not be read: ranks may be among them."""

    def restrict(self, job: Optional[Tuple[str, str]]) -> bool:
        """Want only processes whose environment has this value under this name; True when that is a change."""
        if job == self._job:
            return False
        self._job = job
        self._unrelated.clear()
        return True

    def find(self, present: Set[int], taken: AbstractSet[int]) -> Iterator[JobProcess]:
        """Processes of jobs among ``present`` that are not ``taken`` already."""
        for pid in self._unrelated.keys() - present:
            del self._unrelated[pid]
        self.refused &= present
        moment = time.monotonic()
        due = self._due(present - taken, moment)
        for start in range(0, len(due), BATCH):
            stats: Dict[str, Tuple[int, Stat]] = {}
            for pid in due[start : start + BATCH]:
                stat, known = read_stat(self._proc, pid), self._unrelated.get(pid)
                if stat is None or stat.has_ended:
                    continue
                if known is not None and moment >= known.old_at and known.is_still(stat):
                    self._unrelated[pid] = known._replace(again=moment + RELOOK)
                else:
                    stats["%s/%d" % (self._proc, pid)] = pid, stat
            asked = [folder for folder, (_, stat) in stats.items() if stat.rss]  # a thread of the kernel has none
            answers = self._guard.ask(asked, lambda folder, stats=stats: self._judged(folder, *stats[folder]))  # type: ignore[misc]
            for folder, (pid, stat) in stats.items():
                yield from self._sorted(pid, stat, answers.get(folder), moment)

    def _due(self, pids: Set[int], moment: float) -> List[int]:
        """New and young processes, and a few old ones: of Python first, then those whose turn came first."""
        again = {pid: known for pid, known in self._unrelated.items() if moment >= known.again}
        young = [pid for pid, known in again.items() if moment < known.old_at]
        turns = (
            (not one.comm.startswith(_PYTHON), one.again, pid) for pid, one in again.items() if moment >= one.old_at
        )
        return [*(pids - self._unrelated.keys()), *young, *(pid for _, _, pid in sorted(turns)[:TURNS])]

    def _judged(self, folder: str, pid: int, stat: Stat) -> _Judged:
        """One that carries a rank, or is of a job by what it has mapped. Raises :class:`OSError`."""
        data, known = read(folder + "/environ"), self._unrelated.get(pid)
        rank, library = rank_of(parse(data)) if may_have_rank(data) else None, ""
        if (
            rank is None
            and stat.rss >= LEAST
            and stat.state not in "ZX"
            and (known is None or not known.is_still(stat))
        ):
            library = library_of(read(folder + "/maps", MAPS_LIMIT))
            if library and not is_foreign(split_zeros(read(folder + "/cmdline")), stat.comm):
                rank = rank_of_member(parse(data))
        env = parse(data) if rank is not None else {}
        return _Judged(env, rank if self._passes(env) else None, library if rank is not None else "")

    def _sorted(
        self, pid: int, stat: Stat, answer: Union[_Judged, OSError, None], moment: float
    ) -> Iterator[JobProcess]:
        """The process if it is of a job; else it is remembered."""
        self.refused.discard(pid)
        if isinstance(answer, _Judged) and answer.rank is not None:
            self._unrelated.pop(pid, None)
            shown = presentable(answer.env)
            yield JobProcess(pid, answer.rank, stat, shown=shown, library=answer.library, seen=moment, proc=self._proc)
            return
        if isinstance(answer, PermissionError) and stat.comm.startswith(_PYTHON):
            self.refused.add(pid)
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - stat.start_ticks / CLOCK_TICKS
        again = moment if age < YOUNG else moment + RELOOK if stat.rss else float("inf")
        rss = stat.rss if answer is not None else 0
        self._unrelated[pid] = _Unrelated(stat.start_ticks, stat.comm, rss, moment + YOUNG - age, again)

    def _passes(self, env: Mapping[str, str]) -> bool:
        """True for an environment that the user's filter lets through, and that is not of a program of ours."""
        wanted = all(pair is None or env.get(pair[0]) == pair[1] for pair in (self._job, self._only))
        return wanted and MARK not in env


def library_of(maps: bytes) -> str:
    """The training library that /proc/PID/maps shows: torch before JAX before NCCL; empty for none."""
    return next((name for name, pattern in _LIBRARIES if pattern.search(maps)), "")


def is_foreign(words: Sequence[str], comm: str) -> bool:
    """True for what is never a rank whatever it has mapped: this tool's own programs, profilers, Ray's idle workers."""
    return comm in TOOLS or (bool(words) and words[0].startswith(_IDLE)) or is_own(words)
