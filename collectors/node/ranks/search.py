"""Finds the processes of a job among thousands of others.

A process belongs to a job if it has a rank in its environment or a training library mapped. A young process is read
each time, because a wrapper may still exec the rank. Later only its ``stat`` is read, of a few processes each time
in turn, and the rest only if its name has changed or it has grown by the size of a training library: a node full
of other processes costs next to nothing. ``/proc/PID/maps`` of a process with torch is about 100 KB, which the kernel
writes with the memory map locked, so it is read only for large processes.
"""

from __future__ import annotations

import os
import re
import time
from typing import AbstractSet, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, Union

from collectors.node.blocking import BlockingGuard
from collectors.node.files import read
from collectors.node.processes import environ
from collectors.node.processes.commands import MARK, is_own
from collectors.node.processes.environ import RankEnvironment
from collectors.node.processes.procfs import CLOCK_TICKS, Stat, read_stat, split_zeros
from collectors.node.ranks.job_process import JobProcess

LEAST = 40 << 20
"""Resident bytes; a smaller process does not use torch, JAX or NCCL, whose import takes more than twice as much."""
GROWN = 24 << 20
"""Resident bytes; the least growth of a process that imports one of them."""
MAPS_LIMIT = 8 << 20

_LIBRARIES = (
    ("torch", re.compile(rb"/(?:libtorch(?:_cpu|_cuda|_python|_hip)?|libc10)\.so")),
    ("jax", re.compile(rb"/jaxlib/")),
    ("nccl", re.compile(rb"/libnccl\.so")),
)
TOOLS = frozenset("py-spy nsys ncu cuda-gdb".split())
"""Tools that map the libraries of the process they inspect, by their names in /proc."""
_PYTHON = ("python", "pt_")
"""Name prefixes of Python and torch processes."""
_IDLE = "ray::IDLE"
"""Process title of an idle Ray worker."""

YOUNG = 8.0
"""Seconds after its start during which a process is read each time."""
RELOOK = 30.0
"""Seconds after which an unrelated process is looked at again, if its turn comes."""
BATCH = 64
"""Processes read in one batch: if one hangs, those after it in the batch get no answer."""
TURNS = 24
"""Old processes that are read again each time."""
ONLY = "HANGTOP_ONLY"
"""``KEY=VALUE`` in the node side's own environment: only ranks with it are seen (one machine plays several nodes)."""


class _Unrelated(NamedTuple):
    """A process that belonged to no job when it was last read."""

    start_ticks: int
    comm: str
    rss: int
    """0 if one of its files gave no answer: a large process is then read again at its turn."""
    old_at: float
    again: float
    """Times (monotonic clock) at which it stops being young, and at which it is due again."""

    def is_still(self, stat: Stat) -> bool:
        """Whether it is the same process with the same name, and has not grown by :data:`GROWN` since."""
        return self[:2] == (stat.start_ticks, stat.comm) and stat.rss < self.rss + GROWN


class _Judged(NamedTuple):
    """Result of reading one process."""

    env: Dict[str, str]
    rank: Optional[RankEnvironment]
    """None for a process that belongs to no job."""
    library: str


class Search:
    """Finds processes of jobs; remembers those that belong to none."""

    def __init__(self, proc: str, guard: BlockingGuard) -> None:
        self._proc = proc
        self._guard = guard
        self._unrelated: Dict[int, _Unrelated] = {}
        self._job: Optional[Tuple[str, str]] = None
        only = os.environ.get(ONLY, "").partition("=")
        self._only = (only[0], only[2]) if only[1] else None
        self.refused: Set[int] = set()
        """Python processes with an unreadable environment: ranks may be among them."""

    def restrict(self, job: Optional[Tuple[str, str]]) -> bool:
        """Accept only processes with this variable in their environment; return True when the filter has changed."""
        if job == self._job:
            return False
        self._job = job
        self._unrelated.clear()
        return True

    def find(self, present: Set[int], taken: AbstractSet[int]) -> Iterator[JobProcess]:
        """Processes of jobs among ``present``, except those already ``taken``."""
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
            asked = [folder for folder, (_, stat) in stats.items() if stat.rss]  # kernel threads have no memory
            answers = self._guard.ask(asked, lambda folder, stats=stats: self._judged(folder, *stats[folder]))  # type: ignore[misc]
            for folder, (pid, stat) in stats.items():
                yield from self._sorted(pid, stat, answers.get(folder), moment)

    def _due(self, pids: Set[int], moment: float) -> List[int]:
        """New and young processes, and a few old ones: Python processes first, then by due time."""
        again = {pid: known for pid, known in self._unrelated.items() if moment >= known.again}
        young = {pid for pid, known in again.items() if moment < known.old_at}
        old = sorted(again.keys() - young, key=lambda pid: (not again[pid].comm.startswith(_PYTHON), again[pid].again))
        return [*(pids - self._unrelated.keys()), *young, *old[:TURNS]]

    def _judged(self, folder: str, pid: int, stat: Stat) -> _Judged:
        """Read a process's environment, and its maps if it is large. Raises :class:`OSError`."""
        data, known = read(folder + "/environ"), self._unrelated.get(pid)
        rank, library = environ.rank_of(environ.parse(data)) if environ.may_have_rank(data) else None, ""
        if (
            rank is None
            and stat.rss >= LEAST
            and stat.state not in "ZX"
            and (known is None or not known.is_still(stat))
        ):
            library = library_of(read(folder + "/maps", MAPS_LIMIT))
            if library and not is_foreign(split_zeros(read(folder + "/cmdline")), stat.comm):
                rank = environ.rank_of_member(environ.parse(data))
        env = environ.parse(data) if rank is not None else {}
        return _Judged(env, rank if self._passes(env) else None, library if rank is not None else "")

    def _sorted(
        self, pid: int, stat: Stat, answer: Union[_Judged, OSError, None], moment: float
    ) -> Iterator[JobProcess]:
        """Yield the process if it belongs to a job; else remember it as unrelated."""
        self.refused.discard(pid)
        if isinstance(answer, _Judged) and answer.rank is not None:
            self._unrelated.pop(pid, None)
            shown = environ.presentable(answer.env)
            yield JobProcess(pid, answer.rank, stat, shown=shown, library=answer.library, seen=moment, proc=self._proc)
            return
        if isinstance(answer, PermissionError) and stat.comm.startswith(_PYTHON):
            self.refused.add(pid)
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - stat.start_ticks / CLOCK_TICKS
        again = moment if age < YOUNG else moment + RELOOK if stat.rss else float("inf")
        rss = stat.rss if answer is not None else 0
        self._unrelated[pid] = _Unrelated(stat.start_ticks, stat.comm, rss, moment + YOUNG - age, again)

    def _passes(self, env: Mapping[str, str]) -> bool:
        """True for an environment that passes the user's filter and does not belong to one of our programs."""
        wanted = all(pair is None or env.get(pair[0]) == pair[1] for pair in (self._job, self._only))
        return wanted and MARK not in env


def library_of(maps: bytes) -> str:
    """The training library in /proc/PID/maps: ``torch``, else ``jax``, else ``nccl``; empty for none."""
    return next((name for name, pattern in _LIBRARIES if pattern.search(maps)), "")


def is_foreign(words: Sequence[str], comm: str) -> bool:
    """True for processes that are never ranks, whatever they map: hangtop's programs, profilers, idle Ray workers."""
    return comm in TOOLS or (bool(words) and words[0].startswith(_IDLE)) or is_own(words)
