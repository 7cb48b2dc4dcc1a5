"""Where the logs of a node's ranks lie: standard output and error, NCCL's log, named files.

Behind a pipe it is what the pipe's reader (``tee``, slurmstepd, a launcher) writes, or the log of the container.
"""

from __future__ import annotations

import glob
import os
import re
from functools import partial
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from collectors.node import files
from collectors.node.logs import file_names
from collectors.node.processes.namespaces import seen_by
from collectors.samples.ranks import RankProcess

SEARCH = 20.0
"""Seconds between two costly searches for the same."""
READERS = 512
"""Processes that are looked at with all their descriptors."""
SERVICES = ("/var/log/fabricmanager.log", "/var/log/nvidia-imex.log")
"""Logs of Fabric Manager and IMEX, which say why NVLinks fail."""
CARRIERS = frozenset((
    "tee", "slurmstepd", "srun", "conmon", "containerd-shim", "apptainer", "mpirun", "orted", "prted", "cat", "ts",
))  # fmt: skip
"""Programs that carry others' output, by the names that the kernel gives them (15 characters at most).

No daemon that writes the logs of all containers: which of them is this rank's, its descriptors do not tell."""
CONTAINER_LOGS = (
    "/var/lib/docker/containers/{0}/{0}-json.log",
    "/var/log/containers/*-{0}.log",
    "/var/lib/containers/storage/overlay-containers/{0}/userdata/ctr.log",
)
"""Where the runtimes keep what a container prints: docker's json-file, the kubelet's links, podman's k8s-file."""
_CONTAINER = re.compile(r"[0-9a-f]{64}\Z")


class LogOwner(NamedTuple):
    """A process that writes a file."""

    pid: Optional[int]
    rank: Optional[int]
    stream: str


class WantedLog(NamedTuple):
    """One file and one of the processes that write it."""

    path: str
    owner: LogOwner
    why: str = ""
    """Why it cannot be read; empty for a path that may be opened."""
    uid: Optional[int] = None
    """The user whose process named the file: only what that user may read is read; None for any."""


class LogPlaces:
    """Finds the files; remembers what is costly to find."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._found: Dict[str, Tuple[float, List[str]]] = {}
        """By pipe or pattern: when it was searched for, and what was found."""

    def of_rank(self, rank: RankProcess, now: float) -> Iterator[WantedLog]:
        """Files of one rank. The same path comes twice when both streams go there."""
        number = rank.rank if rank.rank >= 0 else None
        for stream, target, descriptor in (("stdout", rank.stdout, 1), ("stderr", rank.stderr, 2)):
            owner = LogOwner(rank.pid, number, stream)
            if target.startswith("pipe:"):
                find = partial(files_behind, container=rank.container, proc=self._proc)
                behind = self._search(target, now, find, once=True)
                # what is behind a pipe its reader has chosen, and not the rank
                yield from (WantedLog(path, owner) for path in behind)
                if not behind:
                    yield WantedLog(target, owner, "a pipe: name the file behind it with --log")
            elif target.startswith("/") and not target.startswith(("/dev/null", "/dev/pts/", "/dev/tty", "/dev/cons")):
                yield WantedLog(self._opened(rank.pid, target, descriptor), owner, uid=rank.uid)
            elif target:
                yield WantedLog(target, owner, "no file: what was printed there cannot be read")
        if rank.nccl_log:
            yield WantedLog(rank.nccl_log, LogOwner(rank.pid, number, "nccl"), uid=rank.uid)

    def named(self, patterns: Sequence[str], now: float, *, services: bool) -> Iterator[WantedLog]:
        """Files that the user's patterns match, as of the last search; logs of Fabric Manager and IMEX."""
        paths = list(SERVICES) if services else []
        for pattern in patterns:
            paths += sorted(self._search(os.path.expanduser(pattern), now, glob.glob))
        for path in filter(os.path.isfile, paths):
            yield WantedLog(os.path.abspath(path), LogOwner(None, file_names.hints(path).rank, "extra"))

    def _search(self, key: str, now: float, search: Callable[[str], List[str]], *, once: bool = False) -> List[str]:
        """What a search found. It is made again after a while; where ``once``, only until something is found."""
        searched, found = self._found.get(key, (float("-inf"), []))
        if not (once and found) and not 0 <= now - searched <= SEARCH:
            found = search(key)
            self._found[key] = (now, found)
        return found

    def _opened(self, pid: int, target: str, descriptor: int) -> str:
        """Path of an open file: its own, or that of the descriptor where another file has the name, or none."""
        held = "%s/%d/fd/%d" % (self._proc, pid, descriptor)
        path = seen_by(pid, target, self._proc)
        try:
            return path if os.path.samefile(path, held) else held
        except OSError:
            return held


# --- behind a pipe ---------------------------------------------------------------------------------------------------


def files_behind(pipe: str, container: str, proc: str = "/proc", root: str = "") -> List[str]:
    """Files that get what a rank writes to ``pipe``: its container's log, else what the pipe's readers write."""
    found: List[str] = []
    if _CONTAINER.match(container):  # else a scheduler's name, or a namespace
        for pattern in CONTAINER_LOGS:
            found += sorted(glob.glob(root + pattern.format(container)))
    for reader in () if found else _readers(pipe, proc):
        found += _written(reader, proc)
    return list(dict.fromkeys(found))


def _readers(pipe: str, proc: str) -> Iterator[int]:
    """Processes that read it: any by standard input, known carriers by any descriptor."""
    looked = 0
    for name in files.list_folder(proc):
        base = "%s/%s" % (proc, name)
        if not name.isdigit():
            continue
        if files.link(base + "/fd/0") == pipe:
            yield int(name)
        elif looked < READERS and files.read_text(base + "/comm") in CARRIERS:
            looked += 1
            if any(files.link(base + "/fd/" + number) == pipe for number in files.list_folder(base + "/fd")):
                yield int(name)


def _written(pid: int, proc: str) -> Iterator[str]:
    """Regular files that a process writes; to standard error goes what it says itself."""
    base = "%s/%d" % (proc, pid)
    for descriptor in files.list_folder(base + "/fd"):
        held = base + "/fd/" + descriptor
        path = files.link(held)
        if descriptor == "2" or not path.startswith("/") or path.startswith(("/dev/", "/proc/")):
            continue
        opened = re.search(r"^flags:\s+(\d+)$", files.read_text("%s/fdinfo/%s" % (base, descriptor)), re.M)
        written = opened is not None and int(opened.group(1), 8) & (os.O_WRONLY | os.O_RDWR)
        if written and os.path.isfile(held) and not path.endswith(" (deleted)"):
            yield seen_by(pid, path, proc)
