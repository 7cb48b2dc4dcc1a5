"""The source ``logs``: every log file of this node's ranks, its events, its collectives, and lines on view."""

from __future__ import annotations

import time
from collections import deque
from typing import Deque, Dict, Iterator, NamedTuple, Tuple

from collectors.node.logs.following.follow import NOWHERE, FollowedLog, inode_of
from collectors.node.logs.following.places import LogOwner, LogPlaces, WantedLog, named
from collectors.node.processes.mounts import Mounts
from collectors.node.source import Absent, Shared, Source
from collectors.samples.logs import LogEvent, LogFile, LogsRead
from collectors.samples.ranks import RankProcess
from collectors.samples.stream import Settings

SPENT = 0.5
"""CPU seconds that one read may use while logs flood."""
FILES = 256
"""Files that are followed at once at most."""
WAITING, SENT = 4096, 128
"""Events of all logs that may wait to be sent, and events sent per read."""
SHOWN, SHOWN_IN_ALL = 64 << 10, 256 << 10
"""Bytes of raw lines per read, of one file and of all."""
UNSEEN = 2.0
"""Seconds between two reads while no log is on view."""
FIND_EVERY = 5.0
"""Seconds between two searches for new files while the ranks stay the same."""


class LogSource(Source):
    """Follows the logs."""

    name = "logs"
    period = UNSEEN
    retry = UNSEEN  # short, so that the logs of new ranks are read before these ranks end
    deadline = 10.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, sys)
        self._places = LogPlaces(proc)
        self._mounts = Mounts(proc)
        self._followed: Dict[str, FollowedLog] = {}
        self._unread: Dict[Tuple[str, LogOwner], str] = {}
        """Reason why a file of a process is not read."""
        self._waiting: Deque[LogEvent] = deque()
        self._ranks: Dict[int, int] = {}
        """Ranks by pid, including ended ones, whose logs may still be read."""
        self._locals: Dict[int, int] = {}
        """Ranks by local rank."""
        self._settings = Settings(1.0, 0.0, None, [], [], [])
        self._turn = 0
        self._found_at = float("-inf")
        self._found_for: Tuple[RankProcess, ...] = ()

    def configure(self, settings: Settings) -> None:
        """Take new settings: which files to look for, which are on view, which another node reads."""
        self._settings = settings
        self.period = 0.0 if settings.on_view else UNSEEN
        self._found_at = float("-inf")

    def read(self, now: float) -> Iterator[NamedTuple]:
        """Events first, then files and collectives, then the lines on view."""
        if not 0 <= now - self._found_at < FIND_EVERY or self.shared.ranks != self._found_for:
            self._find(now)
        if not self._followed and not self._unread and not self.shared.ranks:
            raise Absent("no rank runs here, and no log was named")
        yield from self._read(now, time.thread_time() + SPENT)
        yield from self._files(now)
        for followed in self._followed.values():
            for progress in followed.progress():
                rank = progress.global_rank if progress.global_rank is not None else self._ranks.get(progress.pid)
                yield progress._replace(global_rank=rank)
        yield from filter(None, [followed.steps() for followed in self._followed.values()])
        on_view = self._settings.on_view
        shown = [followed for path, followed in self._followed.items() if path in on_view or "*" in on_view]
        for followed in shown:
            yield from followed.lines(now, min(SHOWN, SHOWN_IN_ALL // len(shown)), self._locals)

    def _find(self, now: float) -> None:
        """Start to follow new files."""
        ranks = self.shared.ranks
        self._found_at, self._found_for = now, ranks
        self._unread = {}
        self._ranks.update({rank.pid: rank.rank for rank in ranks if rank.rank >= 0})
        self._locals = {rank.local_rank: rank.rank for rank in ranks if rank.local_rank is not None and rank.rank >= 0}
        for wanted in (*self._places.of_ranks(ranks), *named(self._settings.log_globs, services=bool(ranks))):
            self._want(wanted, now)

    def _want(self, wanted: WantedLog, now: float) -> None:
        path, owner, why, uid = wanted
        known = self._followed.get(path)
        if known is None and not why:
            inode = inode_of(path)
            same = (log for log in self._followed.values() if inode != NOWHERE and log.inode == inode)
            known = next(same, None)
            if known is None and len(self._followed) >= FILES:
                why = "%d files are followed already" % FILES
        if why:
            self._unread[path, owner] = why
        elif known is None:
            self._followed[path] = FollowedLog(path, owner, now, uid)
            self._followed[path].refresh()
        elif owner.stream != "extra":
            known.adopt(owner)

    def _read(self, now: float, until: float) -> Iterator[NamedTuple]:
        order = list(self._followed.values())
        self._turn += 1
        first = self._turn % max(1, len(order))
        read_to = [now]
        for place, followed in enumerate(order[first:] + order[:first]):
            events = followed.parser.restart() if followed.refresh() else []
            if self._settings.not_mine and self._identity(followed, now)[0] in self._settings.not_mine:
                continue
            if place == 0 or time.thread_time() < until:
                events += followed.read(now, until)
            # the first events of a flood are the most informative
            self._waiting.extend(map(self._ranked, events[: max(0, WAITING - len(self._waiting))]))
            read_to.append(followed.read_to)
        for _ in range(min(SENT, len(self._waiting))):
            yield self._waiting.popleft()
        if not self._waiting and min(read_to) > float("-inf"):
            yield LogsRead(min(read_to))

    def _ranked(self, event: LogEvent) -> LogEvent:
        """The event with its rank, if its pid or local rank gives it."""
        if event.rank is None and event.pid is not None and event.pid in self._ranks:
            event = event._replace(rank=self._ranks[event.pid])
        local = event.data.get("local_rank")
        if event.rank is None and isinstance(local, int) and not event.kind.startswith("elastic."):
            event = event._replace(rank=self._locals.get(local))
        return event

    def _files(self, now: float) -> Iterator[LogFile]:
        """Each followed file and owner, and the files that are not read."""
        for path, followed in self._followed.items():
            identity, shared = self._identity(followed, now)
            why = "another node reads it" if identity in self._settings.not_mine else followed.why
            for owner in followed.owners:
                yield LogFile(path, identity, *owner, followed.size, shared, why, followed.skipped)
        for (path, owner), why in self._unread.items():
            yield LogFile(path, "", *owner, 0, "", why)

    def _identity(self, followed: FollowedLog, now: float) -> Tuple[str, str]:
        """The ``file_id`` of a file, and the shared file system that it lies on."""
        device, inode = followed.inode
        shared = self._mounts.of(followed.path, now).shared
        return followed.path if followed.inode == NOWHERE else "%s:%d" % (shared or device, inode), shared
