"""The source ``logs``: every log file of this node's ranks, its events, its collectives, and lines on view."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import Deque, Dict, Iterator, NamedTuple, Optional, Tuple

from collectors.node.logs.following.follow import Followed, LogOwner
from collectors.node.logs.following.places import LogPlaces, WantedLog
from collectors.node.processes.mounts import Mounts
from collectors.node.source import Absent, Shared, Source
from collectors.samples.control import Settings
from collectors.samples.logs import LogEvent, LogFile, LogsRead
from collectors.samples.ranks import RankProcess

SHARE, LONGEST = 0.55, 4.0
"""Part of a core that reading logs may use while they flood, of the seconds since the last look, at most so many."""
FILES = 256
"""Files that are followed at once."""
WAITING, SENT = 4096, 128
"""Events that wait at once, of all logs, and those of one look."""
SHOWN, SHOWN_IN_ALL = 64 << 10, 256 << 10
"""Bytes of raw lines in one look, of a file and of all."""
UNSEEN = 2.0
"""Seconds between two looks while nobody has lines on view."""
YOUNG, BRISK = 15.0, 1.0
"""Seconds from the first look in which looks come so often: who watches for some seconds wants to see steps in them."""
FIND_EVERY = 5.0
"""Seconds between two looks for new files while the ranks stay the same."""
NOWHERE = (0, 0)
"""Device and inode of what is not there."""


class LogSource(Source):
    """Follows the logs."""

    name = "logs"
    period = UNSEEN
    retry = UNSEEN  # ranks that come are not to have ended before their logs are read
    deadline = 10.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, sys)
        self._places = LogPlaces(proc)
        self._mounts = Mounts(proc)
        self._followed: Dict[str, Followed] = {}
        self._unread: Dict[Tuple[str, Optional[int], str], WantedLog] = {}
        self._waiting: Deque[LogEvent] = deque()
        self._ranks: Dict[int, int] = {}
        """Ranks by process, of those that have ended too: their logs may still be read."""
        self._locals: Dict[int, int] = {}
        """Ranks by local rank."""
        self._settings = Settings(1.0, 0.0, None, [], [], [])
        self._turn = 0
        self._began = self._looked_at = time.monotonic()
        self._found_at = float("-inf")
        self._found_for: Tuple[RankProcess, ...] = ()

    def configure(self, settings: Settings) -> None:
        """Take new settings: which files to look for, which are on view, which another node reads."""
        self._settings = settings
        self.period = self._period(time.monotonic())
        self._found_at = float("-inf")

    def look(self, now: float) -> Iterator[NamedTuple]:
        """Events first, then files and collectives, then the lines on view."""
        moment = time.monotonic()
        since, self._looked_at = moment - self._looked_at, moment
        until = time.thread_time() + SHARE * min(max(since, self._settings.interval / 2), LONGEST)
        self.period = self._period(moment)
        if not 0 <= now - self._found_at < FIND_EVERY or self.shared.ranks != self._found_for:
            self._find(now)
        if not self._followed and not self._unread and not self.shared.ranks:
            self._began = moment
            raise Absent("no rank runs here, and no log was named")
        yield from self._read(now, until)
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

    def _period(self, moment: float) -> float:
        return 0.0 if self._settings.on_view else BRISK if moment - self._began < YOUNG else UNSEEN

    def _find(self, now: float) -> None:
        """Start to follow what is new."""
        ranks, places = self.shared.ranks, self._places
        self._found_at, self._found_for = now, ranks
        self._unread = {}
        self._ranks.update({rank.pid: rank.rank for rank in ranks if rank.rank >= 0})
        self._locals = {rank.local_rank: rank.rank for rank in ranks if rank.local_rank is not None and rank.rank >= 0}
        theirs = [wanted for rank in ranks for wanted in places.of_rank(rank, now)]
        for wanted in (*theirs, *places.named(self._settings.log_globs, now, services=bool(ranks))):
            self._want(wanted, now)

    def _want(self, wanted: WantedLog, now: float) -> None:
        owner = LogOwner(wanted.pid, wanted.rank, wanted.stream)
        known = self._followed.get(wanted.path)
        if known is None and not wanted.why:
            fresh = Followed(wanted.path, owner, now, wanted.uid)
            fresh.tail.refresh()
            inode = fresh.tail.inode
            same = (one for one in self._followed.values() if inode != NOWHERE and one.tail.inode == inode)
            known = next(same, None)
            if known is None and (len(self._followed) < FILES or self._made_room()):
                self._followed[wanted.path] = fresh
                return
            fresh.tail.close()
        if known is None:
            why = wanted.why or "%d files are followed already" % FILES
            self._unread[wanted.path, wanted.pid, wanted.stream] = wanted._replace(why=why)
        elif wanted.stream != "extra":
            known.adopt(owner)

    def _made_room(self) -> bool:
        """Whether files that are gone gave up their place."""
        gone = [path for path in self._followed if not os.path.exists(path)]
        for path in gone:
            self._waiting.extend(map(self._ranked, self._followed.pop(path).finish()))
        return bool(gone)

    def _read(self, now: float, until: float) -> Iterator[NamedTuple]:
        order = list(self._followed.values())
        self._turn += 1
        first = self._turn % max(1, len(order))
        told_to = [now]
        for place, followed in enumerate(order[first:] + order[:first]):
            followed.tail.refresh()
            if self._settings.not_mine and self._identity(followed, now)[0] in self._settings.not_mine:
                continue
            if place == 0 or time.thread_time() < until:
                followed.read(now, until)
            else:
                followed.sample()
            # what a flood says first tells most
            self._waiting.extend(map(self._ranked, followed.events[: max(0, WAITING - len(self._waiting))]))
            followed.events = []
            told_to.append(followed.told_to)
        for _ in range(min(SENT, len(self._waiting))):
            yield self._waiting.popleft()
        if not self._waiting and min(told_to) > float("-inf"):
            yield LogsRead(min(told_to))

    def _ranked(self, event: LogEvent) -> LogEvent:
        """The event with its rank, where its process or its local rank tells it."""
        if event.rank is None and event.pid is not None and event.pid in self._ranks:
            event = event._replace(rank=self._ranks[event.pid])
        local = event.data.get("local_rank")
        if event.rank is None and isinstance(local, int) and not event.kind.startswith("elastic."):
            event = event._replace(rank=self._locals.get(local))
        failed = event.data.get("failed_pid")
        if isinstance(failed, int) and failed in self._ranks and "failed_rank" not in event.data:
            event = event._replace(data=dict(event.data, failed_rank=self._ranks[failed]))
        return event

    def _files(self, now: float) -> Iterator[LogFile]:
        """Each file with its owners, and those that are not read."""
        for path, followed in self._followed.items():
            (identity, shared), tail = self._identity(followed, now), followed.tail
            why = "another node reads it" if identity in self._settings.not_mine else tail.why
            for owner in followed.owners:
                yield LogFile(path, identity, *owner, tail.size, shared, why, tail.modified, tail.skipped)
        for wanted in self._unread.values():
            yield LogFile(wanted.path, "", wanted.pid, wanted.rank, wanted.stream, 0, "", wanted.why, None)

    def _identity(self, followed: Followed, now: float) -> Tuple[str, str]:
        """The ``file_id`` of a file, and the shared file system that it lies on."""
        device, inode = followed.tail.inode
        shared = self._mounts.of(followed.path, now).shared
        return followed.path if (device, inode) == NOWHERE else "%s:%d" % (shared or device, inode), shared
