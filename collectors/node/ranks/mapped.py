"""Processes of training jobs that do not say a rank: what they have mapped and which threads they run gives them away.

``/proc/PID/maps`` of a process with torch is some 100 KB that the kernel writes with the memory map held, so it is read
only of processes that are large enough to have a training library in them, and again only when one has grown since:
who imports torch later grows by more than that.
"""

from __future__ import annotations

import re
from typing import AbstractSet, Dict, Mapping, NamedTuple, Sequence

from collectors.node.blocking import BlockingGuard
from collectors.node.files import list_folder, read, read_or_none
from collectors.node.processes.own_programs import is_own
from collectors.node.processes.procfs import Stat

LEAST = 40 << 20
"""Resident bytes under which none has torch, JAX or NCCL in use: importing either takes more than twice as much."""
GROWN = 24 << 20
"""Resident bytes by which a process grows when it imports one."""
MAPS_LIMIT = 8 << 20

_LIBRARY = re.compile(rb"/(?:(libtorch(?:_cpu|_cuda|_python|_hip|_xla)?\.so|libc10\.so)|(jaxlib/)|(libnccl\.so))")
_WITHOUT_THREADS = re.compile(rb"/(?:jaxlib/|libmpi\w{0,16}\.so)")
"""Libraries whose processes meet without threads that tell: JAX's, and those of MPI (Open MPI, MPICH, Cray, Intel)."""

DAEMONS = frozenset(
    (
        "nvidia-persiste", "nvidia-persistenced", "nv-hostengine", "dcgm-exporter", "dcgmproftester", "nvidia-cuda-mps",
        "nvidia-cuda-mps-server", "nvidia-cuda-mps-control", "nvidia-smi", "nvidia-fabricma", "nv-fabricmanager",
        "nvidia-imex", "nvtop", "nvitop", "gpustat", "Xorg", "Xwayland", "gnome-shell", "kwin_x11", "kwin_wayland",
        "nsys", "ncu", "py-spy", "cuda-gdb",
    )
)  # fmt: skip
"""Programs that are on a GPU, or look into what is there, and are no job."""

_IDLE = ("ray::IDLE",)
"""Titles of processes that wait to be given work and have none."""

_THREADS = ("pt_nccl_", "pt_gloo_", "pt_tcpstore", "gloo_", "pt_autograd_", "cuda-EvtHandlr", "NCCL ", "pt_dist_engine")
"""Beginnings of the names of threads that a fork does not have: of torch's process groups and stores (ProcessGroupNCCL,
ProcessGroupGloo, TCPStore of torch 2.6 and later), of its backward pass, of the CUDA driver and of NCCL."""


_BYTES = tuple(name.encode() for name in _THREADS)


class _Seen(NamedTuple):
    start_ticks: int
    rss: int
    library: str


class Mapped:
    """Remembers what it has looked at."""

    def __init__(self, proc: str, reader: "BlockingGuard[bytes]") -> None:
        self._proc = proc
        self._reader = reader
        self._seen: Dict[int, _Seen] = {}

    def keep(self, present: AbstractSet[int]) -> None:
        """Forget processes that are gone."""
        for pid in [pid for pid in self._seen if pid not in present]:
            del self._seen[pid]

    def look(self, stats: Mapping[int, Stat], computing: AbstractSet[int]) -> Dict[int, str]:
        """Which of these processes have a training library, or are among those ``computing`` on a GPU.

        By pid: ``torch``, ``jax``, ``nccl`` or ``gpu``.
        """
        due = [pid for pid, stat in stats.items() if self._due(pid, stat)]
        paths = {"%s/%d/maps" % (self._proc, pid): pid for pid in due}
        # judged where it is read: of a node full of ranks all of them together would be tens of megabytes
        answers = self._reader.ask({path: lambda path=path: _library(path) for path in paths})  # type: ignore[misc]
        for path, pid in paths.items():
            stat, answer = stats[pid], answers.get(path)
            if answer is not None:  # else it hangs: asked again
                library = answer.decode() if isinstance(answer, bytes) else ""
                self._seen[pid] = _Seen(stat.start_ticks, stat.rss, library)
        found: Dict[int, str] = {}
        for pid, stat in stats.items():
            seen = self._seen.get(pid)
            library = seen.library if seen is not None and seen.start_ticks == stat.start_ticks else ""
            if library or (pid in computing and stat.comm not in DAEMONS):
                found[pid] = library or "gpu"
        return found

    def may_meet(self, pid: int) -> bool:
        """Whether a process has JAX or a library of MPI mapped, whose ranks meet without threads that would tell."""
        path = "%s/%d/maps" % (self._proc, pid)
        return self._reader.ask({path: lambda: _without_threads(path)}).get(path) == b"yes"

    def _due(self, pid: int, stat: Stat) -> bool:
        seen = self._seen.get(pid)
        if stat.rss < LEAST or stat.state in "ZX" or stat.comm in DAEMONS:
            return False
        if seen is None or seen.start_ticks != stat.start_ticks:
            return True
        return stat.rss >= seen.rss + GROWN


def library_of(maps: bytes) -> str:
    """The training library that /proc/PID/maps shows: torch before JAX before NCCL; empty for none."""
    words = {index for found in _LIBRARY.finditer(maps) for index in (1, 2, 3) if found.group(index)}
    return next((word for index, word in ((1, "torch"), (2, "jax"), (3, "nccl")) if index in words), "")


def _library(path: str) -> bytes:
    """The same of a file that holds them. Raises :class:`OSError`."""
    return library_of(read(path, MAPS_LIMIT)).encode()


def _without_threads(path: str) -> bytes:
    """``yes`` where this file maps such a library. Raises :class:`OSError`."""
    return b"yes" if _WITHOUT_THREADS.search(read(path, MAPS_LIMIT)) else b""


def is_foreign(words: Sequence[str], comm: str) -> bool:
    """True for what is never a rank whatever it has mapped: this tool's own programs, daemons, idle pool workers."""
    if comm in DAEMONS or (words and words[0].startswith(_IDLE)):
        return True
    return is_own(words)


def takes_part(proc: str, pid: int) -> bool:
    """True when a process itself runs threads of a process group, of a backward pass or of the CUDA driver.

    A fork has one thread: what a rank forks does not show any, whatever it inherits.
    """
    base = "%s/%d/task" % (proc, pid)
    return any((read_or_none("%s/%s/comm" % (base, task)) or b"").startswith(_BYTES) for task in list_folder(base))


def title(words: Sequence[str]) -> str:
    """The title that a process gave itself (``VLLM::Worker_TP1``, ``ray::Train.run``); empty where it shows none."""
    first = " ".join(words).strip()
    return first[:80] if "::" in first.partition(" ")[0] else ""
