"""Finds the processes of a job among thousands of others.

They are those that carry a rank in their environment, and those that say none and have a training library mapped. Each
process is read once when it is new, every time while it is young (it may still exec what it wraps), and after that
in turn, a few a time: who execs late is found late, but a node full of strangers costs next to nothing.
"""

from __future__ import annotations

import os
import time
from typing import AbstractSet, Dict, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple

from collectors.node.blocking import Answer, GuardedReader
from collectors.node.files import read_or_none
from collectors.node.processes.environ import (
    RankEnvironment,
    late_rank,
    may_have_rank,
    parse,
    presentable,
    rank_of,
    unnumbered,
)
from collectors.node.processes.own_programs import is_marked
from collectors.node.processes.procfs import Stat, parse_stat, split_zeros
from collectors.node.ranks.mapped import Mapped, is_foreign

YOUNG = 8.0
"""Seconds during which a new process is looked at every time."""
RELOOK = 30.0
"""Seconds after which a process that was no rank is looked at again, turns permitting."""
BATCH = 64
"""Environments that are held at the same time: together they can be megabytes."""
TURNS = 32
"""Old processes that are looked at again at a time."""


ONLY = "HANGTOP_ONLY"
"""``KEY=VALUE`` in the node side's own environment: whose ranks it sees when one machine plays several nodes."""


class FoundProcess(NamedTuple):
    """A process of a job."""

    pid: int
    env: RankEnvironment
    shown: Dict[str, str]
    """The part of its environment that may leave the node."""
    numbered_by: str = "environment"
    """See :class:`collectors.samples.ranks.RankProcess`, as for ``library``."""
    library: str = ""


class Search:
    """Remembers what is no rank."""

    def __init__(self, proc: str, reader: GuardedReader, *, nameless: bool = True) -> None:
        """``nameless``: look also for processes that say no rank."""
        self._proc = proc
        self._nameless = nameless
        self._reader = reader
        self._known: Dict[int, Tuple[float, float]] = {}
        """Pid → when it was first seen, and when to look again (monotonic clock)."""
        self._job: Optional[Tuple[str, str]] = None
        only = os.environ.get(ONLY, "").partition("=")
        self._only = (only[0], only[2]) if only[1] else None
        self._mapped = Mapped(proc, reader)
        self.refused: Set[int] = set()
        """Python processes whose environment may not be read: ranks may be among them."""

    def restrict(self, job: Optional[Tuple[str, str]]) -> bool:
        """Want only processes whose environment has this value under this name; True when that is a change."""
        if job == self._job:
            return False
        self._job = job
        self._known.clear()
        self._mapped.keep(frozenset())
        return True

    def find(self, present: Set[int], taken: Set[int], computing: AbstractSet[int] = frozenset()) -> List[FoundProcess]:
        """Processes of jobs among ``present`` that are not ``taken`` already; ``computing`` are those on a GPU."""
        for pid in [pid for pid in self._known if pid not in present]:
            del self._known[pid]
            self.refused.discard(pid)
        self._mapped.keep(present)
        moment = time.monotonic()
        due = self._due(present, taken, moment)
        found: List[FoundProcess] = []
        for start in range(0, len(due), BATCH):
            paths = {"%s/%d/environ" % (self._proc, pid): pid for pid in due[start : start + BATCH]}
            answers = self._reader.read_all(list(paths))
            others: Dict[int, Answer] = {}
            for path, pid in paths.items():
                answer = answers.get(path)
                carrying = self._judge(pid, answer, moment)
                found += carrying
                if answer is not None and not carrying and self._nameless:
                    others[pid] = answer
            found += self._without_rank(others, computing)
        return found

    def again(self, pid: int, library: str, answer: Optional[Answer] = None) -> Optional[FoundProcess]:
        """A process without a launcher's rank, by fewer variables; None where the user's filter leaves it out."""
        if answer is None:
            path = "%s/%d/environ" % (self._proc, pid)
            answer = self._reader.read_all([path]).get(path)
        env = parse(answer if isinstance(answer, bytes) else b"")
        if not self._passes(env):
            return None
        rank = late_rank(env, library)
        if rank is None:
            return FoundProcess(pid, unnumbered(env), presentable(env), "", library)
        return FoundProcess(pid, rank, presentable(env), "environment", library)

    def has_library(self, pid: int, stat: Stat) -> bool:
        """Whether a process has a training library mapped, as far as that can be read."""
        return bool(self._mapped.look({pid: stat}, frozenset()))

    def may_meet(self, pid: int) -> bool:
        """Whether a process may meet others by JAX or MPI, as far as that can be read."""
        return self._mapped.may_meet(pid)

    def _without_rank(self, others: Mapping[int, Answer], computing: AbstractSet[int]) -> Iterator[FoundProcess]:
        """Those that say no rank and are of a job by what they have mapped."""
        stats = {}
        for pid in others:
            stat = parse_stat(read_or_none("%s/%d/stat" % (self._proc, pid)) or b"")
            if stat is not None and not stat.has_ended:
                stats[pid] = stat
        mapped = self._mapped.look(stats, computing)
        commands = {pid: "%s/%d/cmdline" % (self._proc, pid) for pid in mapped}
        said = self._reader.read_all(list(commands.values()))
        for pid, library in mapped.items():
            answer = said.get(commands[pid])
            words = split_zeros(answer) if isinstance(answer, bytes) else []
            found = None if is_foreign(words, stats[pid].comm) else self.again(pid, library, others[pid])
            if found is not None:
                self._known.pop(pid, None)
                self.refused.discard(pid)
                yield found

    def _judge(self, pid: int, answer: Optional[Answer], moment: float) -> List[FoundProcess]:
        """The process if it carries a rank; else it is remembered, with the time of the next look."""
        env = self._wanted(answer)
        rank = None if env is None else rank_of(env)
        if env is not None and rank is not None:
            self._known.pop(pid, None)
            return [FoundProcess(pid, rank, presentable(env))]
        first, _ = self._known.get(pid, (moment, moment))
        asked_again_soon = moment - first < YOUNG or answer is None
        self._known[pid] = (first, moment if asked_again_soon else moment + RELOOK)
        self._note(pid, answer)
        return []

    def _due(self, present: Set[int], taken: Set[int], moment: float) -> List[int]:
        due: List[int] = []
        turns = 0
        known = self._known
        for pid in present:
            if pid in taken:
                continue
            first, again = known.get(pid, (moment, moment))
            if moment < again:
                continue
            if moment - first >= YOUNG:
                turns += 1
                if turns > TURNS:
                    continue
            due.append(pid)
        return due

    def _wanted(self, answer: Optional[Answer]) -> Optional[Dict[str, str]]:
        """Environment that may have a rank and passes the user's filter."""
        if not isinstance(answer, bytes) or not may_have_rank(answer):
            return None
        env = parse(answer)
        return env if self._passes(env) else None

    def _passes(self, env: Mapping[str, str]) -> bool:
        """True for an environment that the user's filter lets through, and that is not of a program of ours."""
        wanted = all(pair is None or env.get(pair[0]) == pair[1] for pair in (self._job, self._only))
        return wanted and not is_marked(env)

    def _note(self, pid: int, answer: Optional[Answer]) -> None:
        """Remember whether a Python process refused."""
        self.refused.discard(pid)
        if isinstance(answer, PermissionError):
            stat = parse_stat(read_or_none("%s/%d/stat" % (self._proc, pid)) or b"")
            if stat is not None and stat.comm.startswith(("python", "pypy", "pt_")):
                self.refused.add(pid)
