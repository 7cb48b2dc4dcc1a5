"""The source ``logs``: every log file of this node's ranks, its events, its collectives, and lines on view."""

from __future__ import annotations

import os
import time
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from collectors.node.logs.follow import SHOWN, Followed, Owner
from collectors.node.logs.mounts import Mounts
from collectors.node.logs.where import Places, Wanted
from collectors.node.source import Absent, Shared, Source
from collectors.samples import CommProgress, LogEvent, LogFile, Settings

SHARE = 0.55
"""Part of a core that reading logs may use while they flood."""
FILES = 256
"""Files that are followed at once."""
SENT = 128 << 10
"""Bytes of events in one look; the others wait."""
SHOWN_IN_ALL = 256 << 10
"""Bytes of raw lines in one look."""


NOWHERE = (0, 0)


class LogSource(Source):
    """Follows the logs."""

    name = "logs"
    period = 0.0
    deadline = 10.0

    def __init__(self, shared: Shared, proc: str = "/proc", sys: str = "/sys") -> None:
        super().__init__(shared, proc, sys)
        self._places = Places(proc)
        self._mounts = Mounts(proc)
        self._followed: Dict[str, Followed] = {}
        self._unread: Dict[Tuple[str, Optional[int], str], Wanted] = {}
        self._waiting: List[LogEvent] = []
        self._ranks: Dict[int, int] = {}
        self._settings = Settings(1.0, 0.0, None, [], [], [])
        self._turn = 0
        self._left: Dict[Tuple[int, int], int] = {}

    def configure(self, settings: Settings) -> None:
        """Take new settings: which files to look for, which are on view, which another node reads."""
        self._settings = settings

    def look(self, now: float) -> Iterator[NamedTuple]:
        """Files first, then events and collectives, then the lines on view."""
        until = time.thread_time() + SHARE * max(0.1, self._settings.interval)
        self._find(now)
        if not self._followed and not self._unread and not self.shared.ranks:
            raise Absent("no rank runs here, and no log was named")
        yield from self._read(now, until)
        yield from self._files(now)
        yield from self._progress()
        yield from self._view(now)

    def _find(self, now: float) -> None:
        """Start to follow what is new."""
        self._unread = {}
        for rank in self.shared.ranks:
            self._ranks[rank.pid] = rank.rank
            for wanted in self._places.of_rank(rank, now):
                self._want(wanted, now)
        for wanted in self._places.named(self._settings.log_globs, now):
            self._want(wanted, now)

    def _want(self, wanted: Wanted, now: float) -> None:
        owner = Owner(wanted.pid, wanted.rank, wanted.stream)
        known = self._followed.get(wanted.path) or self._elsewhere(wanted)
        if known is not None:
            if wanted.stream != "extra":
                known.adopt(owner)
        elif wanted.why:
            self._unread[wanted.path, wanted.pid, wanted.stream] = wanted
        elif len(self._followed) >= FILES:
            why = "%d files are followed already" % FILES
            self._unread[wanted.path, wanted.pid, wanted.stream] = wanted._replace(why=why)
        else:
            followed = Followed(wanted.path, owner, now, self._left.get(_inode(wanted.path)))
            followed.refresh()
            self._followed[wanted.path] = followed

    def _elsewhere(self, wanted: Wanted) -> Optional[Followed]:
        """The same file, followed under another name."""
        inode = _inode(wanted.path)
        for followed in self._followed.values():
            if inode != NOWHERE and followed.tail.inode == inode:
                return followed
        return None

    def _read(self, now: float, until: float) -> Iterator[NamedTuple]:
        order = list(self._followed.values())
        self._turn += 1
        start = self._turn % max(1, len(order))
        for followed in order[start:] + order[:start]:
            followed.refresh()
            if self._file_id(followed, now) in self._settings.not_mine:
                continue
            if time.thread_time() < until:
                followed.read(now, until)
            else:
                followed.sample(now)
            self._waiting += [self._ranked(event) for event in followed.events]
            followed.events = []
            for device, inode, offset in followed.tail.left:
                self._left[device, inode] = offset
            followed.tail.left = []
        size = 0
        while self._waiting and size < SENT:
            event = self._waiting.pop(0)
            size += len(event.text) + 200
            yield event

    def _ranked(self, event: LogEvent) -> LogEvent:
        """The event with its rank, where its process or its local rank tells it."""
        if event.rank is None and event.pid is not None and event.pid in self._ranks:
            event = event._replace(rank=self._ranks[event.pid])
        local = event.data.get("local_rank")
        if event.rank is None and isinstance(local, int) and not event.kind.startswith("elastic."):
            event = event._replace(rank=self._by_local().get(local))
        failed = event.data.get("failed_pid")
        if isinstance(failed, int) and failed in self._ranks and "failed_rank" not in event.data:
            event = event._replace(data=dict(event.data, failed_rank=self._ranks[failed]))
        return event

    def _by_local(self) -> Dict[int, int]:
        return {rank.local_rank: rank.rank for rank in self.shared.ranks if rank.local_rank is not None}

    def _files(self, now: float) -> Iterator[LogFile]:
        for path, followed in self._followed.items():
            identity = self._file_id(followed, now)
            why = "another node reads it" if identity in self._settings.not_mine else followed.tail.why
            shared = self._mounts.of(path, now).shared
            for owner in followed.owners:
                yield LogFile(
                    path, identity, owner.pid, owner.rank, owner.stream, followed.tail.size, shared, why,
                    followed.tail.modified,
                )  # fmt: skip
        for wanted in self._unread.values():
            yield LogFile(wanted.path, "", wanted.pid, wanted.rank, wanted.stream, 0, "", wanted.why, None)

    def _file_id(self, followed: Followed, now: float) -> str:
        try:
            status = os.stat(followed.path)
        except OSError:
            return followed.path
        shared = self._mounts.of(followed.path, now).shared
        return "%s:%d" % (shared or status.st_dev, status.st_ino)

    def _progress(self) -> Iterator[CommProgress]:
        for followed in self._followed.values():
            for progress in followed.progress():
                rank = progress.global_rank if progress.global_rank is not None else self._ranks.get(progress.pid)
                yield progress._replace(global_rank=rank)

    def _view(self, now: float) -> Iterator[NamedTuple]:
        on_view = set(self._settings.on_view)
        shown = [followed for path, followed in self._followed.items() if path in on_view or "*" in on_view]
        limit = min(SHOWN, SHOWN_IN_ALL // max(1, len(shown)))
        by_local = self._by_local()
        for path, followed in self._followed.items():
            if path in on_view or "*" in on_view:
                yield from followed.lines(now, limit, by_local)
            else:
                followed.hide()


def _inode(path: str) -> Tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return NOWHERE
    return status.st_dev, status.st_ino
