"""Finds the processes of a job among thousands of others.

They are those that carry a rank in their environment, and those that say none and have a training library mapped. Each
process is read once when it is new, every time while it is young (it may still exec what it wraps), and after that
in turn, a few a time: a process that calls exec late is found late, but a node full of strangers costs next to nothing.
"""

from __future__ import annotations

import os
import time
from typing import AbstractSet, Dict, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple

from collectors.node.blocking import Answer, GuardedReader
from collectors.node.files import link
from collectors.node.processes.commands import is_marked, is_python
from collectors.node.processes.environ import (
    NO_RANK,
    RankEnvironment,
    may_have_rank,
    parse,
    presentable,
    rank_of,
    rank_of_member,
)
from collectors.node.processes.procfs import Stat, read_stat, split_zeros
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
        self._known = {pid: known for pid, known in self._known.items() if pid in present}
        self.refused &= present
        self._mapped.keep(present)
        moment = time.monotonic()
        due = self._due(present, taken, moment)
        found: List[FoundProcess] = []
        for start in range(0, len(due), BATCH):
            answers = self._read(due[start : start + BATCH], "environ")
            others: Dict[int, Answer] = {}
            for pid in due[start : start + BATCH]:
                answer = answers.get(pid)
                rank = self._ranked(pid, answer)
                if rank is not None:
                    self._known.pop(pid, None)
                    found.append(rank)
                    continue
                first, _ = self._known.get(pid, (moment, moment))
                soon = moment - first < YOUNG or answer is None
                self._known[pid] = (first, moment if soon else moment + RELOOK)
                self._note_refusal(pid, answer)
                if answer is not None and self._nameless:
                    others[pid] = answer
            found += self._without_rank(others, computing)
        return found

    def again(self, pid: int, library: str, answer: Optional[Answer] = None) -> Optional[FoundProcess]:
        """A process without a launcher's rank, by fewer variables; None where the user's filter leaves it out."""
        if answer is None:
            answer = self._read([pid], "environ").get(pid)
        env = parse(answer if isinstance(answer, bytes) else b"")
        if not self._passes(env):
            return None
        rank = rank_of_member(env)
        return FoundProcess(pid, rank, presentable(env), "" if rank.rank == NO_RANK else "environment", library)

    def _read(self, pids: List[int], name: str) -> Dict[int, Answer]:
        paths = {"%s/%d/%s" % (self._proc, pid, name): pid for pid in pids}
        return {paths[path]: answer for path, answer in self._reader.read_all(list(paths)).items()}

    def _without_rank(self, others: Mapping[int, Answer], computing: AbstractSet[int]) -> Iterator[FoundProcess]:
        """Those that say no rank and are of a job by what they have mapped."""
        stats: Dict[int, Stat] = {}
        for pid in others:
            stat = read_stat(self._proc, pid)
            if stat is not None and not stat.has_ended:
                stats[pid] = stat
        mapped = self._mapped.look(stats, computing)
        commands = self._read(list(mapped), "cmdline")
        for pid, library in mapped.items():
            answer = commands.get(pid)
            words = split_zeros(answer) if isinstance(answer, bytes) else []
            found = None if is_foreign(words, stats[pid].comm) else self.again(pid, library, others[pid])
            if found is not None:
                self._known.pop(pid, None)
                self.refused.discard(pid)
                yield found

    def _ranked(self, pid: int, answer: Optional[Answer]) -> Optional[FoundProcess]:
        """The process, if its environment carries a rank and passes the user's filter."""
        if not isinstance(answer, bytes) or not may_have_rank(answer):
            return None
        env = parse(answer)
        rank = rank_of(env) if self._passes(env) else None
        return None if rank is None else FoundProcess(pid, rank, presentable(env))

    def _due(self, present: Set[int], taken: Set[int], moment: float) -> List[int]:
        """New and young processes, and a few old ones whose turn it is."""
        known = {pid: self._known.get(pid, (moment, moment)) for pid in present - taken}
        due = [pid for pid, (_, again) in known.items() if moment >= again]
        old = [pid for pid in due if moment - known[pid][0] >= YOUNG]
        return [pid for pid in due if moment - known[pid][0] < YOUNG] + old[:TURNS]

    def _passes(self, env: Mapping[str, str]) -> bool:
        """True for an environment that the user's filter lets through, and that is not of a program of ours."""
        wanted = all(pair is None or env.get(pair[0]) == pair[1] for pair in (self._job, self._only))
        return wanted and not is_marked(env)

    def _note_refusal(self, pid: int, answer: Optional[Answer]) -> None:
        """Remember whether a Python process refused."""
        self.refused.discard(pid)
        if isinstance(answer, PermissionError):
            stat = read_stat(self._proc, pid)
            if stat is not None and stat.comm.startswith(("python", "pypy", "pt_")):
                self.refused.add(pid)


class Adopters:
    """Tells the inits of one /proc from parents that started something themselves."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        # In a container the first process may be the launcher itself: being its child is no sign of an orphan then.
        self._init_adopts = not is_python(link(proc + "/1/exe"), [])

    def adopted(self, stat: Stat) -> bool:
        """True when an init is the parent: the process that started it is gone."""
        if stat.parent == 1:
            return self._init_adopts
        parent = read_stat(self._proc, stat.parent) if stat.parent else None
        return parent is not None and parent.comm == "systemd"
