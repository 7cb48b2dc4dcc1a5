"""Where the logs of a node's ranks lie: standard output and error, NCCL's log, torchelastic's folder, named files."""

from __future__ import annotations

import os
from typing import Callable, Dict, Iterator, List, Sequence, Tuple

from collectors.node import files
from collectors.node import late_re as re
from collectors.node.globbing import matches
from collectors.node.logs import file_names
from collectors.node.logs.following import ended
from collectors.node.logs.following.ended import WantedLog
from collectors.node.logs.following.pipes import files_behind
from collectors.node.processes.rooted import seen_by
from collectors.samples.ranks import RankProcess

SEARCH = 20.0
"""Seconds between two costly searches for the same."""
_SERVICES = (
    ("/usr/share/nvidia/nvswitch/fabricmanager.cfg", "/var/log/fabricmanager.log"),
    ("/etc/nvidia-imex/config.cfg", "/var/log/nvidia-imex.log"),
)
"""Configuration and usual log of Fabric Manager and of IMEX."""
_LOG_FILE = re.compile(r"^[ \t]*LOG_FILE_NAME[ \t]*=[ \t]*(/[^\s#]{1,400})", re.MULTILINE)


class LogPlaces:
    """Finds the files; remembers what is costly to find."""

    def __init__(self, proc: str = "/proc", root: str = "") -> None:
        self._proc = proc
        self._root = root
        self._searched: Dict[Tuple[str, ...], Tuple[float, List[str]]] = {}

    def of_rank(self, rank: RankProcess, now: float) -> Iterator[WantedLog]:
        """Files of one rank. The same path comes twice when both streams go there."""
        number = rank.rank if rank.rank >= 0 else None
        for stream, target, descriptor in (("stdout", rank.stdout, 1), ("stderr", rank.stderr, 2)):
            for path, why in self._opened(rank.pid, target, descriptor, now, rank.container) if target else ():
                # what is behind a pipe its reader has chosen, and not the rank
                uid = None if target.startswith("pipe:") else rank.uid
                yield WantedLog(path, rank.pid, number, stream, why, uid)
        if rank.nccl_log:
            yield WantedLog(rank.nccl_log, rank.pid, number, "nccl", "", rank.uid)
        yield from self.of_elastic(rank)

    def of_elastic(self, rank: RankProcess) -> Iterator[WantedLog]:
        """What is in the folder that torchelastic made for a rank, be it alive or gone."""
        error = rank.env.get("TORCHELASTIC_ERROR_FILE", "")
        if error.startswith("/"):
            folder = os.path.dirname(seen_by(rank.pid, error, self._proc))
            for path in (os.path.join(folder, name) for name in ended.ELASTIC_FILES):
                if os.path.exists(path):
                    yield WantedLog(path, rank.pid, rank.rank if rank.rank >= 0 else None, "elastic", "", rank.uid)

    def named(self, patterns: Sequence[str], now: float) -> Iterator[WantedLog]:
        """Files that the user's patterns match, as of the last search."""
        for pattern in patterns:
            found = self._known((pattern,), now, matches, os.path.expanduser(pattern))
            for path in filter(os.path.isfile, found):
                yield _extra(os.path.abspath(path))

    def of_services(self, now: float) -> Iterator[WantedLog]:
        """Logs of Fabric Manager and IMEX, which say why NVLinks fail, where they are configured or as usual."""
        for path in filter(os.path.isfile, self._known((), now, self._services)):
            yield WantedLog(path, None, None, "extra", "")

    def left_behind(self, now: float) -> Iterator[WantedLog]:
        """Files of a job that has ended, and of launchers that outlive it, as of the last search."""
        for path in self._known(("left behind", ""), now, ended.left_behind, now):
            yield _extra(path)
        for pid in ended.launchers(self._proc):
            for descriptor in (1, 2):
                target = files.link("%s/%d/fd/%d" % (self._proc, pid, descriptor))
                for path, why in self._opened(pid, target, descriptor, now):
                    if not why:
                        yield WantedLog(path, None, None, "extra", "")

    def _known(self, key: Tuple[str, ...], now: float, search: Callable[..., List[str]], *args: object) -> List[str]:
        """What a search found. It is made again after a while, but for a pipe of which the file is known."""
        searched, found = self._searched.get(key, (float("-inf"), []))
        if not 0 <= now - searched <= SEARCH and not (found and search is files_behind):
            found = search(*args)
            self._searched[key] = (now, found)
        return found

    def _services(self) -> List[str]:
        found = []
        for configuration, usual in _SERVICES:
            named = _LOG_FILE.search(files.text(files.read_or_none(self._root + configuration) or b""))
            found.append(self._root + (named.group(1) if named is not None else usual))
        return found

    def _opened(self, pid: int, target: str, descriptor: int, now: float, container: str = "") -> List[Tuple[str, str]]:
        """What an open descriptor leads to: (path, why not)."""
        if target.startswith("pipe:"):
            where = (pid, target, container, self._proc, self._root)
            behind = self._known((target, container), now, files_behind, *where)
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


def _extra(path: str) -> WantedLog:
    return WantedLog(path, None, file_names.hints(path).rank, "extra", "")


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
