"""One process of a job: the state kept between reads, and the samples read from /proc.

Only /proc is read: other file systems may hang. Unreadable values are unknown.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from collectors.node import redact
from collectors.node.files import link, list_folder, read_or_none, text
from collectors.node.processes import procfs
from collectors.node.processes.environ import NO_RANK, RankEnvironment
from collectors.node.processes.namespaces import foreign_namespace, seen_by
from collectors.node.processes.procfs import ProcessStatus, Stat
from collectors.samples.ranks import Helper, ProcessGone, RankProcess, RankPulse

FIRST_PAUSE, LONGEST_PAUSE = 1.25, 60.0
"""Seconds between reads of the threads of a process without a rank, doubling. The threads in :data:`THREADS` start with
the first communicator."""
THREADS = (b"pt_nccl_", b"pt_gloo_", b"pt_tcpstore", b"gloo_", b"pt_autograd_", b"cuda-EvtHandlr", b"NCCL ")
"""Name prefixes of threads that a forked process does not have: those of torch's process groups and stores
(ProcessGroupNCCL, ProcessGroupGloo, TCPStore of torch 2.6 and later), its backward pass, the CUDA driver and NCCL."""
WAITED_WINDOW_S = 10.0
"""Seconds over which the wait for a CPU is measured: several steps of most jobs."""
WAITED_STEP = 5
"""Per cent; the share is rounded to multiples of this, so that a steady value is sent once."""
ZOMBIES = 64
"""Children examined at most: a rank that never waits for its children may leave thousands of zombies."""


class JobProcess:
    """A process with a rank in its environment, or with a training library mapped."""

    def __init__(
        self,
        pid: int,
        env: RankEnvironment,
        stat: Stat,
        *,
        shown: Optional[Dict[str, str]] = None,
        library: str = "",
        seen: float = 0.0,
        proc: str = "/proc",
    ) -> None:
        """``shown`` is the part of its environment that may leave the node, ``seen`` the time at which it was found."""
        self.pid = pid
        self.env = env
        self.stat = stat
        self.shown = shown or {}
        self.library = library
        """See :class:`collectors.samples.ranks.RankProcess`."""
        self.seen = seen
        self.words: Sequence[str] = ()
        """Its command line."""
        self.executable = ""
        """Path of its program; empty if unreadable."""
        self.orphan = False
        """True when the process that started it is gone."""
        self.takes_part = False
        """True when it runs threads listed in :data:`THREADS`; checked only for processes found by their library."""
        self.sent: Optional[RankProcess] = None
        """The last sample sent for it; None unless it is a rank."""
        self.facts_at = self.zombies_at = 0.0
        self.bytes_moved: Optional[int] = None
        """Bytes read and written by a helper; None before the first read, and for data workers and ranks."""
        self._proc = proc
        self._base = "%s/%d/" % (proc, pid)
        self._files: Dict[str, int] = {}
        self._zombies: Set[int] = set()
        self._threads_at, self._pause = 0.0, FIRST_PAUSE
        self._window: Optional[Tuple[float, float]] = None
        """Start of the window, and the main thread's seconds of waiting for a CPU up to then."""
        self._waited: Optional[int] = None

    @property
    def cpu(self) -> float:
        """CPU seconds so far."""
        return self.stat.cpu_user + self.stat.cpu_system

    def read(self, name: str) -> bytes:
        """Read one of its files in /proc. The file is kept open, so that later reads take one call instead of four.

        Empty when the process is gone or the file is unreadable.
        """
        try:
            if name not in self._files:
                self._files[name] = os.open(self._base + name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            return os.pread(self._files[name], 8192, 0)
        except OSError:
            return b""

    def close(self) -> None:
        """Close its files."""
        while self._files:
            os.close(self._files.popitem()[1])

    def begins_to_take_part(self, moment: float) -> bool:
        """True on the first read at which a process found by its library runs threads of a process group.

        A forked process has one thread, so a rank's children show no such threads.
        """
        if self.takes_part or not self.library or moment < self._threads_at:
            return False
        self._threads_at, self._pause = moment + self._pause, min(2 * self._pause, LONGEST_PAUSE)
        names = [read_or_none(self._base + "task/%s/comm" % task) or b"" for task in list_folder(self._base + "task")]
        self.takes_part = any(name.startswith(THREADS) for name in names)
        return self.takes_part

    def facts(self, booted: float, status: ProcessStatus, versions: Mapping[str, str]) -> RankProcess:
        """Sample of a rank's stable properties."""
        cgroup = procfs.parse_cgroup(read_or_none(self._base + "cgroup") or b"")
        cwd = link(self._base + "cwd")
        return RankProcess(
            pid=self.pid,
            started=round(booted + self.stat.start_ticks / procfs.CLOCK_TICKS, 2),
            **{name: value for name, value in self.env._asdict().items() if name != "assigned"},
            parent=self.stat.parent,
            command=redact.command(self.words),
            cwd=cwd,
            container=cgroup.name or foreign_namespace(self.pid, "mnt", self._proc),
            uid=status.uid,
            user=_users().get(status.uid, str(status.uid)),
            stdout=link(self._base + "fd/1"),
            stderr=link(self._base + "fd/2"),
            nccl_log=self._nccl_log(status.inner_pid, cwd),
            env=dict(self.shown),
            versions=dict(versions),
            library=self.library,
            label=self._title() if self.env.rank == NO_RANK else "",
            own_pid=0 if status.inner_pid == self.pid else status.inner_pid,
            adopted=self.orphan,
            allowed=text(procfs.colon_field(self.read("status"), b"Cpus_allowed_list"))[:200],
            nice=self.stat.nice,
        )

    def _nccl_log(self, own_pid: int, cwd: str) -> str:
        """NCCL_DEBUG_FILE as a path that this side can open; ``%h``, ``%p``, ``%%`` expanded as in NCCL's debug.cc."""
        pattern = self.shown.get("NCCL_DEBUG_FILE", "")
        if not pattern:
            return ""
        values = {"%h": os.uname().nodename.partition(".")[0], "%p": str(own_pid), "%%": "%"}
        path = re.sub("%[hp%]", lambda found: values[found.group()], pattern)
        return seen_by(self.pid, path if path.startswith("/") else cwd + "/" + path, self._proc)

    def _title(self) -> str:
        """Its process title (``VLLM::Worker_TP1``, ``ray::Train.run``); empty if it set none."""
        first = " ".join(self.words).strip()
        return first[:80] if "::" in first.partition(" ")[0] else ""

    def pulse(
        self, status: ProcessStatus, moment: float, helpers_cpu: float, helpers_bytes: Optional[int]
    ) -> RankPulse:
        """Sample of a rank's changing figures; ``helpers_cpu`` and ``helpers_bytes`` belong to its living helpers."""
        stat = self.stat
        state, wchan = stat.state, self.read("wchan")
        if state in "ZX" and stat.threads > 1:
            state, wchan = self._thread_left() or (state, wchan)
        read, written = procfs.parse_io(self.read("io"))
        schedstat = procfs.parse_schedstat(self.read("schedstat"))
        if schedstat is not None:
            self._measure_wait(moment, schedstat[1])
        return RankPulse(
            pid=self.pid,
            state=state,
            wchan=procfs.parse_wchan(wchan),
            cpu_user=stat.cpu_user,
            cpu_system=stat.cpu_system,
            voluntary_switches=status.voluntary_switches,
            involuntary_switches=status.involuntary_switches,
            rss=stat.rss,
            threads=stat.threads,
            read_bytes=read,
            written_bytes=written,
            helpers_cpu=round(helpers_cpu + stat.children_cpu, 2),  # a compiler's children end within a second
            main_cpu=schedstat[0] if schedstat is not None else None,
            helpers_bytes=helpers_bytes,
            waited=self._waited,
        )

    def _thread_left(self) -> Optional[Tuple[str, bytes]]:
        """State and wchan of a remaining thread of a process whose main thread has ended; state D is preferred.

        The kernel shows such a process as a zombie. Usually it was killed, and a thread stuck in a driver keeps the
        process alive, with its memory and its GPU.
        """
        found: Dict[str, str] = {}
        for folder, stat in procfs.threads(self._proc, self.pid):
            if stat.state not in "ZX":
                found.setdefault(stat.state, folder)
        if not found:
            return None
        state = "D" if "D" in found else next(iter(found))
        return state, read_or_none(found[state] + "/wchan") or b""

    def _measure_wait(self, moment: float, waited: float) -> None:
        """At the end of each window, compute the share of it in which the main thread was runnable without a CPU."""
        began, before = self._window or (moment, waited)
        if moment - began >= WAITED_WINDOW_S:
            percent = 100.0 * (waited - before) / (moment - began)
            self._waited = max(0, min(100, WAITED_STEP * round(percent / WAITED_STEP)))
        if self._window is None or moment - began >= WAITED_WINDOW_S:
            self._window = moment, waited

    def helper(self, owner: int) -> Helper:
        """Sample of this process as a helper of the rank ``owner``."""
        is_loader = self.stat.comm == "pt_data_worker"
        if not is_loader:  # there may be hundreds of data workers; a fork that saves a checkpoint is not one
            read, written = procfs.parse_io(read_or_none(self._base + "io") or b"")
            self.bytes_moved = None if read is None or written is None else read + written
        role = "data_worker" if is_loader else "helper"
        wchan = procfs.parse_wchan(read_or_none(self._base + "wchan") or b"")
        command = redact.command(self.words, 256)
        return Helper(self.pid, owner, role, self.stat.state, wchan, self.stat.rss, command)

    def zombies(self, now: float) -> Iterator[NamedTuple]:
        """Children of a rank's main thread that have ended and that the rank has not waited for.

        A rank may wait forever for such a child, and only the kernel knows how the child ended. Yields a
        :class:`Helper` in state Z for each new zombie, a :class:`ProcessGone` for each that has disappeared.
        """
        reported, self._zombies = self._zombies, set()
        children: List[bytes] = (read_or_none(self._base + "task/%d/children" % self.pid) or b"").split()
        for pid in [int(word) for word in children[-ZOMBIES:] if word.isdigit()]:
            stat = procfs.read_stat(self._proc, pid)
            if stat is None or not stat.has_ended or stat.parent != self.pid:
                continue
            self._zombies.add(pid)
            if pid not in reported:
                yield Helper(pid, self.pid, "helper", stat.state, "", 0, stat.comm, stat.wait_status)
        yield from (ProcessGone(pid, now) for pid in sorted(reported - self._zombies))


@lru_cache(maxsize=1)
def _users(path: str = "/etc/passwd") -> Dict[int, str]:
    """User names by id, from the file alone: the name service may hang."""
    rows = [line.split(":") for line in text(read_or_none(path) or b"").splitlines()]
    return {int(row[2]): row[0] for row in reversed(rows) if len(row) > 2 and row[2].isdecimal()}
