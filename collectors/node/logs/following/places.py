"""Finds the logs of a node's ranks: standard output and error, NCCL's log, files named by the user.

For a pipe, the log is the file that the pipe's reader (``tee``, slurmstepd, a launcher) writes, or the container's log.
"""

from __future__ import annotations

import glob
import os
import re
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence

from collectors.node import files
from collectors.node.logs import file_names
from collectors.node.processes.namespaces import seen_by
from collectors.samples.ranks import RankProcess

SERVICES = ("/var/log/fabricmanager.log", "/var/log/nvidia-imex.log")
"""Logs of Fabric Manager and IMEX, which show why NVLinks fail."""
CARRIERS = frozenset("slurmstepd srun conmon containerd-shim apptainer mpirun orted prted".split())
"""Programs that read other processes' output on any descriptor, by their names in /proc (at most 15 characters).

Daemons that write the logs of all containers are not listed: their descriptors do not show which log is this rank's."""
CONTAINER_LOGS = (
    "/var/lib/docker/containers/{0}/{0}-json.log",
    "/var/log/containers/*-{0}.log",
    "/var/lib/containers/storage/overlay-containers/{0}/userdata/ctr.log",
)
"""Container logs of the runtimes: docker's json-file, the kubelet's links, podman's k8s-file."""
_CONTAINER = r"[0-9a-f]{64}\Z"


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
    """Why the file cannot be read; empty for a path to open."""
    uid: Optional[int] = None
    """The user whose process named the file: it is read only if that user may read it. None: no such check."""


class LogPlaces:
    """Finds the files; caches the readers of pipes, because finding them is costly."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._readers: Dict[str, Sequence[str]] = {}
        """By pipe of a rank: its readers' folders in /proc."""

    def of_ranks(self, ranks: Sequence[RankProcess]) -> Iterator[WantedLog]:
        """Files of the ranks. A path occurs twice if both streams of a rank go there."""
        pipes = {target for rank in ranks for target in (rank.stdout, rank.stderr) if target.startswith("pipe:")}
        if not pipes <= self._readers.keys():
            self._readers = {**dict.fromkeys(pipes, ()), **readers_of_pipes(self._proc)}
        for rank in ranks:
            yield from self._of_rank(rank)

    def _of_rank(self, rank: RankProcess) -> Iterator[WantedLog]:
        number = rank.rank if rank.rank >= 0 else None
        for stream, target in (("stdout", rank.stdout), ("stderr", rank.stderr)):
            owner = LogOwner(rank.pid, number, stream)
            if target.startswith("pipe:"):
                written = (path for base in self._readers[target] for path in _written(base, self._proc))
                behind = container_logs(rank.container) or list(written)
                # the pipe's reader chose the file, not the rank: no uid to check
                yield from (WantedLog(path, owner) for path in behind)
                if not behind:
                    yield WantedLog(target, owner, "a pipe: name the file behind it with --log")
            elif target.startswith("/") and not target.startswith(("/dev/null", "/dev/pts/", "/dev/tty", "/dev/cons")):
                yield WantedLog(seen_by(rank.pid, target, self._proc), owner, uid=rank.uid)
            elif target:
                yield WantedLog(target, owner, "no file: what was printed there cannot be read")
        if rank.nccl_log:
            yield WantedLog(rank.nccl_log, LogOwner(rank.pid, number, "nccl"), uid=rank.uid)


def named(patterns: Sequence[str], *, services: bool) -> Iterator[WantedLog]:
    """Files that match the user's patterns; with ``services`` also the logs of Fabric Manager and IMEX."""
    paths = list(SERVICES) if services else []
    for pattern in patterns:
        paths += sorted(glob.glob(os.path.expanduser(pattern)))
    for path in filter(os.path.isfile, paths):
        yield WantedLog(os.path.abspath(path), LogOwner(None, file_names.hints(path).rank, "extra"))


def container_logs(container: str, root: str = "") -> List[str]:
    """Log files of a container; empty if ``container`` is not a container id (but a scheduler's name or namespace)."""
    patterns = CONTAINER_LOGS if re.match(_CONTAINER, container) else ()
    return [path for pattern in patterns for path in sorted(glob.glob(root + pattern.format(container)))]


def readers_of_pipes(proc: str = "/proc") -> Dict[str, List[str]]:
    """Readers' folders in /proc, by pipe: any process on its standard input, :data:`CARRIERS` on any descriptor."""
    found: Dict[str, List[str]] = {}
    for name in filter(str.isdigit, files.list_folder(proc)):
        base = "%s/%s" % (proc, name)
        carries = files.read_text(base + "/comm") in CARRIERS
        held = {files.link(base + "/fd/" + number) for number in (files.list_folder(base + "/fd") if carries else "0")}
        for target in held:
            if target.startswith("pipe:"):
                found.setdefault(target, []).append(base)
    return found


def _written(base: str, proc: str) -> Iterator[str]:
    """Regular files that a process writes, except standard error, which holds its own messages."""
    for descriptor in files.list_folder(base + "/fd"):
        held = base + "/fd/" + descriptor
        path = files.link(held)
        if descriptor == "2" or not path.startswith("/") or path.startswith(("/dev/", "/proc/")):
            continue
        flags = re.search(r"^flags:\s+(\d+)$", files.read_text("%s/fdinfo/%s" % (base, descriptor)), re.M)
        written = flags is not None and int(flags.group(1), 8) & (os.O_WRONLY | os.O_RDWR)
        if written and os.path.isfile(held) and not path.endswith(" (deleted)"):
            yield seen_by(int(os.path.basename(base)), path, proc)
