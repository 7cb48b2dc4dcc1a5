"""One process of a job: what is known of it from look to look, and what /proc tells of it.

All is read from /proc alone: other file systems may hang. What may not be read is unknown.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from collectors.node import redact
from collectors.node.files import link, list_folder, read_or_none, text
from collectors.node.processes.environ import NO_RANK, RankEnvironment
from collectors.node.processes.namespaces import foreign_mounts, seen_by
from collectors.node.processes.procfs import (
    CLOCK_TICKS,
    ProcessStatus,
    Stat,
    colon_field,
    parse_cgroup,
    parse_io,
    parse_schedstat,
    parse_wchan,
    read_stat,
    threads,
)
from collectors.samples.ranks import Helper, ProcessGone, RankProcess, RankPulse

FIRST_PAUSE, LONGEST_PAUSE = 1.25, 60.0
"""Seconds between looks at the threads of a process without a rank; they double. Its threads come with the first
communicator."""
THREADS = (b"pt_nccl_", b"pt_gloo_", b"pt_tcpstore", b"gloo_", b"pt_autograd_", b"cuda-EvtHandlr", b"NCCL ")
"""Beginnings of the names of threads that a fork does not have: of torch's process groups and stores (ProcessGroupNCCL,
ProcessGroupGloo, TCPStore of torch 2.6 and later), of its backward pass, of the CUDA driver and of NCCL."""
WAITED_WINDOW_S = 10.0
"""Seconds over which the wait for a CPU is measured: several steps of most jobs."""
WAITED_STEP = 5
"""Per cent that this share is rounded to, so that one that stays as it is is sent once."""
ZOMBIES = 64
"""Children that are looked at: a rank that waits for none of what it starts may leave thousands."""


class JobProcess:
    """One process with a rank in its environment, or one without that has a training library mapped."""

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
        """``shown`` is the part of its environment that may leave the node, ``seen`` when it was found."""
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
        """Path of its program; empty where that may not be read."""
        self.orphan = False
        """True when the process that started it is gone."""
        self.takes_part = False
        """It runs threads of a process group or of the CUDA driver itself; looked at where it says no rank."""
        self.told: Optional[RankProcess] = None
        """What was told of it; None unless it is a rank."""
        self.facts_at = self.zombies_at = 0.0
        self.bytes_moved: Optional[int] = None
        """Read and written, of a helper that is no data worker; None before it was looked at, and of all others."""
        self._proc = proc
        self._base = "%s/%d/" % (proc, pid)
        self._files: Dict[str, int] = {}
        self._zombies: Set[int] = set()
        self._threads_at, self._pause = 0.0, FIRST_PAUSE
        self._window: Optional[Tuple[float, float]] = None
        """When a window began, and the seconds for which the main thread had waited for a CPU by then."""
        self._waited: Optional[int] = None

    @property
    def cpu(self) -> float:
        """CPU seconds so far."""
        return self.stat.cpu_user + self.stat.cpu_system

    def read(self, name: str) -> bytes:
        """A file of it in /proc that is read every second: kept open, a look is one call instead of four.

        Empty when the process is gone, or where it may not be read.
        """
        try:
            if name not in self._files:
                self._files[name] = os.open(self._base + name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            return os.pread(self._files[name], 8192, 0)
        except OSError:
            return b""

    def close(self) -> None:
        """Let go of its files."""
        while self._files:
            os.close(self._files.popitem()[1])

    def begins_to_take_part(self, moment: float) -> bool:
        """Whether a process without a rank is seen for the first time to run threads of a process group.

        A fork has one thread: what a rank forks does not show any, whatever it inherits.
        """
        if self.takes_part or not self.library or moment < self._threads_at:
            return False
        self._threads_at, self._pause = moment + self._pause, min(2 * self._pause, LONGEST_PAUSE)
        names = [read_or_none(self._base + "task/%s/comm" % task) or b"" for task in list_folder(self._base + "task")]
        self.takes_part = any(name.startswith(THREADS) for name in names)
        return self.takes_part

    def facts(self, booted: float, status: ProcessStatus, versions: Mapping[str, str]) -> RankProcess:
        """What does not move in a rank."""
        cgroup = parse_cgroup(read_or_none(self._base + "cgroup") or b"")
        cwd = link(self._base + "cwd")
        return RankProcess(
            pid=self.pid,
            started=round(booted + self.stat.start_ticks / CLOCK_TICKS, 2),
            **{name: value for name, value in self.env._asdict().items() if name != "assigned"},
            parent=self.stat.parent,
            command=redact.command(self.words),
            cwd=cwd,
            container=cgroup.name or foreign_mounts(self.pid, self._proc),
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
            allowed=text(colon_field(self.read("status"), b"Cpus_allowed_list"))[:200],
            nice=self.stat.nice,
        )

    def _nccl_log(self, own_pid: int, cwd: str) -> str:
        """NCCL_DEBUG_FILE as a path that this side can open: ``%h``, ``%p`` and ``%%`` as NCCL's debug.cc has them."""
        pattern = self.shown.get("NCCL_DEBUG_FILE", "")
        if not pattern:
            return ""
        values = {"%h": os.uname().nodename.partition(".")[0], "%p": str(own_pid), "%%": "%"}
        path = re.sub("%[hp%]", lambda found: values[found.group()], pattern)
        return seen_by(self.pid, path if path.startswith("/") else cwd + "/" + path, self._proc)

    def _title(self) -> str:
        """The title that it gave itself (``VLLM::Worker_TP1``, ``ray::Train.run``); empty where it shows none."""
        first = " ".join(self.words).strip()
        return first[:80] if "::" in first.partition(" ")[0] else ""

    def pulse(
        self, status: ProcessStatus, moment: float, helpers_cpu: float, helpers_bytes: Optional[int]
    ) -> RankPulse:
        """What moves in a rank; ``helpers_cpu`` is that of its living helpers."""
        stat = self.stat
        state, wchan = stat.state, self.read("wchan")
        if state in "ZX" and stat.threads > 1:
            state, wchan = self._thread_left() or (state, wchan)
        read, written = parse_io(self.read("io"))
        schedstat = parse_schedstat(self.read("schedstat"))
        if schedstat is not None:
            self._measure_wait(moment, schedstat[1])
        return RankPulse(
            pid=self.pid,
            state=state,
            wchan=parse_wchan(wchan),
            cpu_user=stat.cpu_user,
            cpu_system=stat.cpu_system,
            voluntary_switches=status.voluntary_switches,
            involuntary_switches=status.involuntary_switches,
            rss=stat.rss,
            threads=stat.threads,
            read_bytes=read,
            written_bytes=written,
            helpers_cpu=round(helpers_cpu + stat.children_cpu, 2),  # a compiler starts many that end in a second
            main_cpu=schedstat[0] if schedstat is not None else None,
            helpers_bytes=helpers_bytes,
            waited=self._waited,
        )

    def _thread_left(self) -> Optional[Tuple[str, bytes]]:
        """State and wchan of a thread of a process whose first one has ended; an uninterruptible one first.

        The kernel shows such a process as a zombie. As a rule it was killed, and a thread that is stuck in a driver
        keeps it, with its memory and its GPU.
        """
        found: Dict[str, str] = {}
        for folder, stat in threads(self._proc, self.pid):
            if stat.state not in "ZX":
                found.setdefault(stat.state, folder)
        if not found:
            return None
        state = "D" if "D" in found else next(iter(found))
        return state, read_or_none(found[state] + "/wchan") or b""

    def _measure_wait(self, moment: float, waited: float) -> None:
        """Once a window, note for how much of it the main thread was ready and had no CPU."""
        began, before = self._window or (moment, waited)
        if moment - began >= WAITED_WINDOW_S:
            percent = 100.0 * (waited - before) / (moment - began)
            self._waited = max(0, min(100, WAITED_STEP * round(percent / WAITED_STEP)))
        if self._window is None or moment - began >= WAITED_WINDOW_S:
            self._window = moment, waited

    def helper(self, owner: int) -> Helper:
        """What is told of it as a helper of this rank."""
        is_loader = self.stat.comm == "pt_data_worker"
        if not is_loader:  # of those there may be hundreds; a fork that saves a checkpoint is none
            read, written = parse_io(read_or_none(self._base + "io") or b"")
            self.bytes_moved = None if read is None or written is None else read + written
        role = "data_worker" if is_loader else "helper"
        wchan = parse_wchan(read_or_none(self._base + "wchan") or b"")
        command = redact.command(self.words, 256)
        return Helper(self.pid, owner, role, self.stat.state, wchan, self.stat.rss, command)

    def zombies(self, now: float) -> Iterator[NamedTuple]:
        """Children of a rank's main thread that have ended and that it has not waited for.

        A rank that waits for an answer of one waits in vain, and how it ended is told nowhere else. A :class:`Helper`
        in state Z for each that is new, a :class:`ProcessGone` for each that is no longer there.
        """
        told, self._zombies = self._zombies, set()
        children: List[bytes] = (read_or_none(self._base + "task/%d/children" % self.pid) or b"").split()
        for pid in [int(word) for word in children[-ZOMBIES:] if word.isdigit()]:
            stat = read_stat(self._proc, pid)
            if stat is None or not stat.has_ended or stat.parent != self.pid:
                continue
            self._zombies.add(pid)
            if pid not in told:
                yield Helper(pid, self.pid, "helper", stat.state, "", 0, stat.comm, stat.wait_status)
        yield from (ProcessGone(pid, now) for pid in sorted(told - self._zombies))


@lru_cache(maxsize=1)
def _users(path: str = "/etc/passwd") -> Dict[int, str]:
    """User names by id, from the file alone: asking the name service may hang."""
    rows = [line.split(":") for line in text(read_or_none(path) or b"").splitlines()]
    return {int(row[2]): row[0] for row in reversed(rows) if len(row) > 2 and row[2].isdecimal()}
