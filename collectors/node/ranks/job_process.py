"""One process of a job: what is known of it from look to look."""

from __future__ import annotations

import os
from typing import Dict, List, Optional, Sequence, Set, Tuple

from collectors.node.files import list_folder, read_or_none, text
from collectors.node.processes.environ import RankEnvironment
from collectors.node.processes.procfs import Stat, colon_field
from collectors.samples.ranks import CpuWait, RankProcess

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


class HeldFiles:
    """Files of one process in /proc that are read every second: kept open, a look is one call instead of four."""

    def __init__(self, proc: str, pid: int) -> None:
        self._base = "%s/%d/" % (proc, pid)
        self._files: Dict[str, int] = {}

    def read(self, name: str) -> bytes:
        """Contents of a file; empty when the process is gone, or where it may not be read."""
        try:
            if name not in self._files:
                self._files[name] = os.open(self._base + name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            return os.pread(self._files[name], 8192, 0)
        except OSError:
            return b""

    def close(self) -> None:
        """Let go of them."""
        while self._files:
            os.close(self._files.popitem()[1])


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
        self.facts_at = 0.0
        self.bytes_moved: Optional[int] = None
        """Read and written, of a helper that is no data worker; None before it was looked at, and of all others."""
        self.quiet_looks = 0
        """Looks in a row in which its main thread made no voluntary context switch."""
        self.zombies: Set[int] = set()
        """Children of its that have ended, and were told of."""
        self.zombies_at = 0.0
        self.held = HeldFiles(proc, pid)
        self._tasks = "%s/%d/task" % (proc, pid)
        self._switches = -1
        self._threads_at, self._pause = 0.0, FIRST_PAUSE
        self._waited: Optional[Tuple[float, float]] = None
        """When a window began, and the seconds for which the main thread had waited for a CPU by then."""

    def note_switches(self, voluntary: int) -> None:
        """Count looks without a voluntary context switch of its main thread."""
        self.quiet_looks = self.quiet_looks + 1 if voluntary == self._switches else 0
        self._switches = voluntary

    def cpu_wait(self, moment: float, waited: float, status: bytes) -> Optional[CpuWait]:
        """Once a window, for how much of it the main thread was ready and had no CPU."""
        began, before = self._waited = self._waited or (moment, waited)
        if moment - began < WAITED_WINDOW_S:
            return None
        self._waited = (moment, waited)
        share = WAITED_STEP * round(100.0 * (waited - before) / (moment - began) / WAITED_STEP)
        allowed = text(colon_field(status, b"Cpus_allowed_list"))[:200]
        return CpuWait(self.pid, max(0, min(100, share)), allowed, self.stat.nice)

    def begins_to_take_part(self, moment: float) -> bool:
        """Whether a process without a rank is seen for the first time to run threads of a process group.

        A fork has one thread: what a rank forks does not show any, whatever it inherits.
        """
        if self.takes_part or not self.library or moment < self._threads_at:
            return False
        self._threads_at, self._pause = moment + self._pause, min(2 * self._pause, LONGEST_PAUSE)
        names: List[bytes] = [
            read_or_none("%s/%s/comm" % (self._tasks, task)) or b"" for task in list_folder(self._tasks)
        ]
        self.takes_part = any(name.startswith(THREADS) for name in names)
        return self.takes_part
