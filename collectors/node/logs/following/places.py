"""Where the logs of a node's ranks lie: standard output and error, NCCL's log, named files.

Behind a pipe it is what the pipe's reader (``tee``, slurmstepd, a launcher) writes, or the log of the container.
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
"""Logs of Fabric Manager and IMEX, which say why NVLinks fail."""
CARRIERS = frozenset("slurmstepd srun conmon containerd-shim apptainer mpirun orted prted".split())
"""Programs that read others' output by any descriptor, by the names that the kernel gives them (15 characters at most).

No daemon that writes the logs of all containers: which of them is this rank's, its descriptors do not tell."""
CONTAINER_LOGS = (
    "/var/lib/docker/containers/{0}/{0}-json.log",
    "/var/log/containers/*-{0}.log",
    "/var/lib/containers/storage/overlay-containers/{0}/userdata/ctr.log",
)
"""Where the runtimes keep what a container prints: docker's json-file, the kubelet's links, podman's k8s-file."""
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
    """Why it cannot be read; empty for a path that may be opened."""
    uid: Optional[int] = None
    """The user whose process named the file: only what that user may read is read; None for any."""


class LogPlaces:
    """Finds the files; remembers the readers of pipes, who are costly to find."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._readers: Dict[str, Sequence[str]] = {}
        """By pipe of a rank the folders of its readers in /proc."""

    def of_ranks(self, ranks: Sequence[RankProcess]) -> Iterator[WantedLog]:
        """Files of the ranks. The same path comes twice when both streams of one go there."""
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
                # what is behind a pipe its reader has chosen, and not the rank
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
    """Files that the user's patterns match; logs of Fabric Manager and IMEX."""
    paths = list(SERVICES) if services else []
    for pattern in patterns:
        paths += sorted(glob.glob(os.path.expanduser(pattern)))
    for path in filter(os.path.isfile, paths):
        yield WantedLog(os.path.abspath(path), LogOwner(None, file_names.hints(path).rank, "extra"))


def container_logs(container: str, root: str = "") -> List[str]:
    """Where the runtime keeps what a container prints; ``container`` may be a scheduler's name, or a namespace, too."""
    patterns = CONTAINER_LOGS if re.match(_CONTAINER, container) else ()
    return [path for pattern in patterns for path in sorted(glob.glob(root + pattern.format(container)))]


def readers_of_pipes(proc: str = "/proc") -> Dict[str, List[str]]:
    """By pipe the folders of the processes that read it: any by standard input, known carriers by any descriptor."""
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
    """Regular files that a process writes; to standard error goes what it says itself."""
    for descriptor in files.list_folder(base + "/fd"):
        held = base + "/fd/" + descriptor
        path = files.link(held)
        if descriptor == "2" or not path.startswith("/") or path.startswith(("/dev/", "/proc/")):
            continue
        flags = re.search(r"^flags:\s+(\d+)$", files.read_text("%s/fdinfo/%s" % (base, descriptor)), re.M)
        written = flags is not None and int(flags.group(1), 8) & (os.O_WRONLY | os.O_RDWR)
        if written and os.path.isfile(held) and not path.endswith(" (deleted)"):
            yield seen_by(int(os.path.basename(base)), path, proc)
