"""Finds the processes of a job among thousands of others.

They are those that carry a rank in their environment, and those that have a training library mapped or compute on a
GPU. Each process is read when it is new, every time while it is young (it may still exec what it wraps), and after that
in turn, a few a time: a node full of strangers costs next to nothing.

``/proc/PID/maps`` of a process with torch is some 100 KB that the kernel writes with the memory map held, so it is read
only of processes that are large enough to have a training library in them, and again only when one has grown since.
"""

from __future__ import annotations

import os
import re
import time
from typing import AbstractSet, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from collectors.node.blocking import Answer, GuardedReader
from collectors.node.files import link, list_folder, read, read_or_none
from collectors.node.processes.commands import is_marked, is_own, is_python
from collectors.node.processes.environ import (
    RankEnvironment,
    may_have_rank,
    parse,
    presentable,
    rank_of,
    rank_of_member,
)
from collectors.node.processes.procfs import Stat, read_stat, split_zeros

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
DAEMONS = frozenset(
    "nvidia-persiste nv-hostengine dcgm-exporter nvidia-cuda-mps nvidia-smi nvidia-fabricma nvidia-imex nvtop gpustat "
    "Xorg gnome-shell nsys ncu py-spy cuda-gdb".split()
)
"""Programs that are on a GPU, or look into what is there, and are no job; as the kernel cuts their names."""
_IDLE = "ray::IDLE"
"""Title of a worker of Ray that waits to be given work."""
_THREADS = (b"pt_nccl_", b"pt_gloo_", b"pt_tcpstore", b"gloo_", b"pt_autograd_", b"cuda-EvtHandlr", b"NCCL ")
"""Beginnings of the names of threads that a fork does not have: of torch's process groups and stores (ProcessGroupNCCL,
ProcessGroupGloo, TCPStore of torch 2.6 and later), of its backward pass, of the CUDA driver and of NCCL."""

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
    library: str = ""
    """See :class:`collectors.samples.ranks.RankProcess`."""


class Search:
    """Remembers what is no rank."""

    def __init__(self, proc: str, reader: GuardedReader, *, nameless: bool = True) -> None:
        """``nameless``: look also for processes without a rank in their environment."""
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
        return True

    def find(self, present: Set[int], taken: Set[int], computing: AbstractSet[int] = frozenset()) -> List[FoundProcess]:
        """Processes of jobs among ``present`` that are not ``taken`` already; ``computing`` are those on a GPU."""
        for pid in self._known.keys() - present:
            del self._known[pid]
        self.refused &= present
        self._mapped.keep(present)
        moment = time.monotonic()
        due = self._due(present - taken, moment)
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

    def _due(self, pids: Set[int], moment: float) -> List[int]:
        """New and young processes, and a few old ones whose turn it is."""
        young: List[int] = []
        old: List[int] = []
        for pid in pids:
            first, again = self._known.get(pid, (moment, moment))
            if moment >= again:
                (young if moment - first < YOUNG else old).append(pid)
        return young + old[:TURNS]

    def _read(self, pids: List[int], name: str) -> Dict[int, Answer]:
        paths = {"%s/%d/%s" % (self._proc, pid, name): pid for pid in pids}
        return {paths[path]: answer for path, answer in self._reader.read_all(list(paths)).items()}

    def _ranked(self, pid: int, answer: Optional[Answer]) -> Optional[FoundProcess]:
        """The process, if its environment carries a rank and passes the user's filter."""
        if not isinstance(answer, bytes) or not may_have_rank(answer):
            return None
        env = parse(answer)
        rank = rank_of(env) if self._passes(env) else None
        return None if rank is None else FoundProcess(pid, rank, presentable(env))

    def _without_rank(self, others: Mapping[int, Answer], computing: AbstractSet[int]) -> Iterator[FoundProcess]:
        """Those without a rank that are of a job by what they have mapped."""
        stats: Dict[int, Stat] = {}
        for pid in others:
            stat = read_stat(self._proc, pid)
            if stat is not None and not stat.has_ended:
                stats[pid] = stat
        mapped = self._mapped.look(stats, computing)
        commands = self._read(list(mapped), "cmdline")
        for pid, library in mapped.items():
            command, environ = commands.get(pid), others[pid]
            words = split_zeros(command) if isinstance(command, bytes) else []
            env = parse(environ if isinstance(environ, bytes) else b"")
            if self._passes(env) and not is_foreign(words, stats[pid].comm):
                self._known.pop(pid, None)
                self.refused.discard(pid)
                yield FoundProcess(pid, rank_of_member(env, words), presentable(env), library)

    def _passes(self, env: Mapping[str, str]) -> bool:
        """True for an environment that the user's filter lets through, and that is not of a program of ours."""
        wanted = all(pair is None or env.get(pair[0]) == pair[1] for pair in (self._job, self._only))
        return wanted and not is_marked(env)

    def _note_refusal(self, pid: int, answer: Optional[Answer]) -> None:
        """Remember whether a Python process refused."""
        self.refused.discard(pid)
        if isinstance(answer, PermissionError):
            stat = read_stat(self._proc, pid)
            if stat is not None and stat.comm.startswith(("python", "pt_")):
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


class _Seen(NamedTuple):
    start_ticks: int
    rss: int
    library: str


class Mapped:
    """The training library of each process, read again only of a process that has grown."""

    def __init__(self, proc: str, reader: GuardedReader) -> None:
        self._proc = proc
        self._reader = reader
        self._seen: Dict[int, _Seen] = {}

    def keep(self, present: AbstractSet[int]) -> None:
        """Forget processes that are gone."""
        for pid in self._seen.keys() - present:
            del self._seen[pid]

    def look(self, stats: Mapping[int, Stat], computing: AbstractSet[int]) -> Dict[int, str]:
        """Which of these processes have a training library, or are among those ``computing`` on a GPU.

        By pid: ``torch``, ``jax``, ``nccl`` or ``gpu``.
        """
        paths = {"%s/%d/maps" % (self._proc, pid): pid for pid, stat in stats.items() if self._due(pid, stat)}
        # judged where it is read: of a node full of ranks all of them together would be tens of megabytes
        answers = self._reader.ask({path: lambda path=path: _library(path) for path in paths})  # type: ignore[misc]
        for path, answer in answers.items():  # a process whose maps hang is asked again
            stat = stats[paths[path]]
            library = answer.decode() if isinstance(answer, bytes) else ""
            self._seen[paths[path]] = _Seen(stat.start_ticks, stat.rss, library)
        found: Dict[int, str] = {}
        for pid, stat in stats.items():
            seen = self._seen.get(pid)
            library = seen.library if seen is not None and seen.start_ticks == stat.start_ticks else ""
            if library or (pid in computing and stat.comm not in DAEMONS):
                found[pid] = library or "gpu"
        return found

    def _due(self, pid: int, stat: Stat) -> bool:
        seen = self._seen.get(pid)
        if stat.rss < LEAST or stat.state in "ZX" or stat.comm in DAEMONS:
            return False
        return seen is None or seen.start_ticks != stat.start_ticks or stat.rss >= seen.rss + GROWN


def library_of(maps: bytes) -> str:
    """The training library that /proc/PID/maps shows: torch before JAX before NCCL; empty for none."""
    return next((name for name, pattern in _LIBRARIES if pattern.search(maps)), "")


def _library(path: str) -> bytes:
    """The same of a file that holds them. Raises :class:`OSError`."""
    return library_of(read(path, MAPS_LIMIT)).encode()


def is_foreign(words: Sequence[str], comm: str) -> bool:
    """True for what is never a rank whatever it has mapped: this tool's own programs, daemons, idle workers of Ray."""
    return comm in DAEMONS or (bool(words) and words[0].startswith(_IDLE)) or is_own(words)


def takes_part(proc: str, pid: int) -> bool:
    """True when a process itself runs threads of a process group, of a backward pass or of the CUDA driver.

    A fork has one thread: what a rank forks does not show any, whatever it inherits.
    """
    base = "%s/%d/task" % (proc, pid)
    return any((read_or_none("%s/%s/comm" % (base, task)) or b"").startswith(_THREADS) for task in list_folder(base))
