"""Which files hold what the ranks say: standard output and error, NCCL's log, torchelastic's folder, named ones."""

from __future__ import annotations

import os
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from collectors.node import files
from collectors.node import late_re as re
from collectors.node.globbing import matches
from collectors.node.logs import file_names
from collectors.node.logs.following import ended
from collectors.node.logs.following.pipe_readers import SEARCH, Pipes
from collectors.node.processes.rooted import seen_by
from collectors.samples.ranks import RankProcess

NOWHERE = (0, 0)
"""Device and inode of what is not there."""
SERVICES = "services"
"""Stands among patterns for the node's own services: no pattern, for it has no place."""


_SERVICES = (
    ("/usr/share/nvidia/nvswitch/fabricmanager.cfg", "/var/log/fabricmanager.log"),
    ("/etc/nvidia-imex/config.cfg", "/var/log/nvidia-imex.log"),
)
"""Configuration and usual log of Fabric Manager and of IMEX."""
_LOG_FILE = re.compile(r"^[ \t]*LOG_FILE_NAME[ \t]*=[ \t]*(/[^\s#]{1,400})", re.MULTILINE)


class WantedLog(NamedTuple):
    """One file and one of those who write it."""

    path: str
    pid: Optional[int]
    rank: Optional[int]
    stream: str
    why: str
    """Why it cannot be read; empty for a path that may be opened."""
    uid: Optional[int] = None
    """The user whose process named the file: only what that user may read is read; None for any."""


class LogPlaces:
    """Finds the files; remembers what is costly to find."""

    def __init__(self, proc: str = "/proc", root: str = "") -> None:
        self._proc = proc
        self._root = root
        self._globs: Dict[str, Tuple[float, List[str]]] = {}
        self._pipes = Pipes(proc)
        self._left: Tuple[float, List[WantedLog]] = (float("-inf"), [])

    def of_rank(self, rank: RankProcess, now: float) -> Iterator[WantedLog]:
        """Files of one rank. The same path comes twice when both streams go there."""
        for stream, target, descriptor in (("stdout", rank.stdout, 1), ("stderr", rank.stderr, 2)):
            if target:
                for path, why in self._opened(rank.pid, target, descriptor, now, rank.container):
                    # what is behind a pipe its reader has chosen, and not the rank
                    uid = None if target.startswith("pipe:") else rank.uid
                    yield WantedLog(path, rank.pid, _number(rank), stream, why, uid)
        if rank.nccl_log:
            yield WantedLog(rank.nccl_log, rank.pid, _number(rank), "nccl", "", rank.uid)
        yield from self.of_elastic(rank)

    def of_elastic(self, rank: RankProcess) -> Iterator[WantedLog]:
        """What is in the folder that torchelastic made for a rank, be it alive or gone."""
        error = rank.env.get("TORCHELASTIC_ERROR_FILE", "")
        if error.startswith("/"):
            folder = os.path.dirname(seen_by(rank.pid, error, self._proc))
            for name in ("stdout.log", "stderr.log", "error.json"):
                path = os.path.join(folder, name)
                if os.path.exists(path):
                    yield WantedLog(path, rank.pid, _number(rank), "elastic", "", rank.uid)

    def named(self, patterns: Sequence[str], now: float) -> Iterator[WantedLog]:
        """Files that the user's patterns match, as of the last search."""
        for pattern in patterns:
            searched, found = self._globs.get(pattern, (float("-inf"), []))
            if not 0 <= now - searched <= SEARCH:
                found = [path for path in matches(os.path.expanduser(pattern)) if os.path.isfile(path)]
                self._globs[pattern] = (now, found)
            for path in filter(os.path.isfile, found):
                yield WantedLog(os.path.abspath(path), None, file_names.hints(path).rank, "extra", "")

    def of_system(self, now: float) -> Iterator[WantedLog]:
        """Logs of the node's own services that say why a job's NVLinks fail, as of the last search."""
        searched, found = self._globs.get(SERVICES, (float("-inf"), []))
        if not 0 <= now - searched <= SEARCH:
            found = places(self._root)
            self._globs[SERVICES] = (now, found)
        for path in found:
            yield WantedLog(path, None, None, "extra", "")

    def left_behind(self, now: float) -> List[WantedLog]:
        """Files of a job that has ended, and of launchers that outlive it, as of the last search."""
        searched, found = self._left
        if not 0 <= now - searched <= SEARCH:
            alive = list(ended.launchers(self._proc))
            found = [
                WantedLog(path, None, file_names.hints(path).rank, "extra", "")
                for path in ended.left_behind([launcher.folder for launcher in alive], now)
            ]
            for launcher in alive:
                for descriptor in (1, 2):
                    target = files.link("%s/%d/fd/%d" % (self._proc, launcher.pid, descriptor))
                    for path, why in self._opened(launcher.pid, target, descriptor, now):
                        if not why:
                            found.append(WantedLog(path, None, None, "extra", ""))
            self._left = (now, found)
        return found

    def _opened(self, pid: int, target: str, descriptor: int, now: float, container: str = "") -> List[Tuple[str, str]]:
        """What an open descriptor leads to: (path, why not)."""
        if target.startswith("pipe:"):
            behind = self._pipes.files(pid, target, container, now)
            return [(path, "") for path in behind] or [(target, "a pipe: name the file behind it with --log")]
        if target.startswith(("/dev/pts/", "/dev/tty", "/dev/console")):
            return [(target, "a terminal: what was printed there cannot be read")]
        if target == "/dev/null":
            return [(target, "thrown away")]
        if not target.startswith("/"):
            return [(target, "not a file")]
        held = "%s/%d/fd/%d" % (self._proc, pid, descriptor)
        if target.endswith(" (deleted)"):
            return [(held, "")]
        path = seen_by(pid, target, self._proc)
        return [(path if _same(path, held) else held, "")]


def _number(rank: RankProcess) -> Optional[int]:
    return rank.rank if rank.rank >= 0 else None


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def places(root: str = "") -> List[str]:
    """Log files of Fabric Manager and IMEX on this node, where they are configured or as usual; those that exist."""
    found = []
    for configuration, usual in _SERVICES:
        named = _LOG_FILE.search(files.text(files.read_or_none(root + configuration) or b""))
        found.append(root + (named.group(1) if named is not None else usual))
    return [path for path in found if os.path.isfile(path)]


def inode_of(path: str) -> Tuple[int, int]:
    """Device and inode of a path; :data:`NOWHERE` where it cannot be looked at."""
    try:
        status = os.stat(path)
    except OSError:
        return NOWHERE
    return status.st_dev, status.st_ino
