"""Processes of training jobs that do not say a rank: the libraries that they have mapped and their threads' names.

``/proc/PID/maps`` of a process with torch is some 100 KB that the kernel writes with the memory map held, so it is read
only of processes that are large enough to have a training library in them, and again only when one has grown since: a
process that imports torch later grows by more than that.
"""

from __future__ import annotations

import re
from typing import AbstractSet, Dict, Mapping, NamedTuple, Sequence

from collectors.node.blocking import BlockingGuard
from collectors.node.files import list_folder, read, read_or_none
from collectors.node.processes.commands import is_own
from collectors.node.processes.procfs import Stat

LEAST = 40 << 20
"""Resident bytes under which no process has torch, JAX or NCCL in use: importing one takes more than twice as much."""
GROWN = 24 << 20
"""Resident bytes by which a process grows when it imports one."""
MAPS_LIMIT = 8 << 20

_LIBRARIES = (
    ("torch", re.compile(rb"/(?:libtorch(?:_cpu|_cuda|_python|_hip|_xla)?|libc10)\.so")),
    ("jax", re.compile(rb"/jaxlib/")),
    ("nccl", re.compile(rb"/libnccl\.so")),
)

DAEMONS = frozenset(
    (
        "nvidia-persiste", "nvidia-persistenced", "nv-hostengine", "dcgm-exporter", "dcgmproftester", "nvidia-cuda-mps",
        "nvidia-cuda-mps-server", "nvidia-cuda-mps-control", "nvidia-smi", "nvidia-fabricma", "nv-fabricmanager",
        "nvidia-imex", "nvtop", "nvitop", "gpustat", "Xorg", "Xwayland", "gnome-shell", "nsys", "ncu", "py-spy",
        "cuda-gdb",
    )
)  # fmt: skip
"""Programs that are on a GPU, or look into what is there, and are no job."""

_IDLE = "ray::IDLE"
"""Title of a worker of Ray that waits to be given work."""

_THREADS = (
    b"pt_nccl_", b"pt_gloo_", b"pt_tcpstore", b"gloo_", b"pt_autograd_", b"cuda-EvtHandlr", b"NCCL ",
    b"pt_dist_engine",
)  # fmt: skip
"""Beginnings of the names of threads that a fork does not have: of torch's process groups and stores (ProcessGroupNCCL,
ProcessGroupGloo, TCPStore of torch 2.6 and later), of its backward pass, of the CUDA driver and of NCCL."""


class _Seen(NamedTuple):
    start_ticks: int
    rss: int
    library: str


class Mapped:
    """The training library of each process, read again only of a process that has grown."""

    def __init__(self, proc: str, reader: "BlockingGuard[bytes]") -> None:
        self._proc = proc
        self._reader = reader
        self._seen: Dict[int, _Seen] = {}

    def keep(self, present: AbstractSet[int]) -> None:
        """Forget processes that are gone."""
        self._seen = {pid: seen for pid, seen in self._seen.items() if pid in present}

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


def title(words: Sequence[str]) -> str:
    """The title that a process gave itself (``VLLM::Worker_TP1``, ``ray::Train.run``); empty where it shows none."""
    first = " ".join(words).strip()
    return first[:80] if "::" in first.partition(" ")[0] else ""
