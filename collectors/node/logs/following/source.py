"""The source ``logs``: every log file of this node's ranks, its events, its collectives, and lines on view."""

from __future__ import annotations

import time
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from collectors.node.logs.following.follow import SHOWN, Followed, LogWriter
from collectors.node.logs.following.log_paths import NOWHERE, LogPlaces, WantedLog, inode_of
from collectors.node.logs.following.missing_rank_logs import logs_of_absent
from collectors.node.logs.following.outbox import Outbox
from collectors.node.processes.mounts import Mounts
from collectors.node.shared import Shared
from collectors.node.source import Absent, Source
from collectors.samples.control import ENDED, Settings
from collectors.samples.logs import CommProgress, LogEvent, LogFile, LogsRead, StepCount
from collectors.samples.ranks import RankProcess

SHARE = 0.55
"""Part of a core that reading logs may use while they flood."""
LONGEST = 4.0
"""Seconds since the last look for which that part is taken at most."""
FILES = 256
"""Files that are followed at once."""
SENT = 128 << 10
"""Bytes of events in one look; the others wait."""
SHOWN_IN_ALL = 256 << 10
"""Bytes of raw lines in one look."""
UNSEEN = 2.0
"""Seconds between two looks while nobody has lines on view."""
YOUNG, BRISK = 15.0, 1.0
"""Seconds from the first look in which looks come so often: who watches for some seconds wants to see steps in them."""
STEPS_EVERY = 0.8
"""Seconds between two words on the steps that logs tell of, at the least."""
FIND_EVERY = 5.0
"""Seconds between two looks for new files while the ranks stay the same."""


SIZE_EVERY = 4.0
"""Seconds between two words on the size of a file that grows."""


class ToldFile:
    """What was last said of a file, and who it is."""

    __slots__ = ("at", "checked", "files", "identity", "inode", "size", "words")

    def __init__(self) -> None:
        self.files: List[LogFile] = []
        self.identity = ""
        self.checked = self.at = float("-inf")
        self.inode = NOWHERE
        self.size = -1
        """Its size in the last look."""
        self.words: Tuple[object, ...] = ()

    def due(self, size: int, words: Tuple[object, ...], now: float) -> bool:
        """Whether to say it anew: what changed, a size that grows now and then, and one that has come to rest."""
        rests, self.size = size == self.size, size
        known, self.words = words == self.words, words
        if known and (size == self.files[0].size or not (rests or not 0 <= now - self.at < SIZE_EVERY)):
            return False
        self.at = now
        return True


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
        self._waiting = Outbox()
        self._ranks: Dict[int, int] = {}
        self._settings = Settings(1.0, 0.0, None, [], [], [])
        self._turn = 0
        self._left: Dict[Tuple[int, int], int] = {}
        self._told: Dict[str, ToldFile] = {}
        self._looked_at = time.monotonic()
        self._began: Optional[float] = None
        self._steps_at = float("-inf")
        self._found_at = float("-inf")
        self._found_for: Tuple[RankProcess, ...] = ()
        self._full = False

    def configure(self, settings: Settings) -> None:
        """Take new settings: which files to look for, which are on view, which another node reads."""
        self._settings = settings
        self.period = self._period(time.monotonic())
        self._found_at = float("-inf")

    def look(self, now: float) -> Iterator[NamedTuple]:
        """Files first, then events and collectives, then the lines on view."""
        until = self._until()
        self._began = self._looked_at if self._began is None else self._began
        self.period = self._period(self._looked_at)
        self._find(now)
        if not self._followed and not self._unread and not self.shared.ranks:
            raise Absent("no rank runs here, and no log was named")
        yield from self._read(now, until)
        yield from self._files(now)
        yield from self._progress()
        if not 0 <= now - self._steps_at < STEPS_EVERY:
            self._steps_at = now
            yield from self._steps()
        yield from self._view(now)

    def _period(self, moment: float) -> float:
        if self._settings.on_view:
            return 0.0
        return BRISK if self._began is None or moment - self._began < YOUNG else UNSEEN

    def _until(self) -> float:
        """This thread's CPU time at which this look has had its part of what passed since the last."""
        moment = time.monotonic()
        since, self._looked_at = moment - self._looked_at, moment
        return time.thread_time() + SHARE * min(max(since, self._settings.interval / 2), LONGEST)

    def _find(self, now: float) -> None:
        """Start to follow what is new."""
        ranks = self.shared.ranks
        if 0 <= now - self._found_at < FIND_EVERY and ranks == self._found_for:
            return
        here = {rank.pid for rank in ranks}
        gone = [rank for rank in self._found_for if rank.pid not in here]
        self._found_at, self._found_for = now, ranks
        self._unread = {}
        self._full = False
        for inode in list(self._left)[: -4 * FILES]:
            del self._left[inode]
        for rank in gone:
            for wanted in self._places.of_elastic(rank):  # an error file is written just before the end
                self._want(wanted, now)
        self._ranks.update({rank.pid: rank.rank for rank in ranks if rank.rank >= 0})
        theirs = [wanted for rank in ranks for wanted in self._places.of_rank(rank, now)]
        # whose log is followed since it ran is known
        left = [wanted for wanted in logs_of_absent(ranks, theirs) if wanted.path not in self._followed]
        for wanted in (*theirs, *left):
            self._want(wanted, now)
        for wanted in self._places.of_system(now) if ranks else ():
            self._want(wanted, now)
        globs = [pattern for pattern in self._settings.log_globs if pattern != ENDED]
        for wanted in self._places.named(globs, now):
            self._want(wanted, now)
        if not ranks and len(globs) < len(self._settings.log_globs):
            for wanted in self._places.left_behind(now):
                self._want(wanted, now)

    def _want(self, wanted: WantedLog, now: float) -> None:
        owner = LogWriter(wanted.pid, wanted.rank, wanted.stream)
        known = self._followed.get(wanted.path) or self._elsewhere(wanted)
        if known is not None:
            if wanted.stream != "extra":
                known.adopt(owner)
        elif wanted.why:
            self._unread[wanted.path, wanted.pid, wanted.stream] = wanted
        elif len(self._followed) >= FILES and not self._made_room():
            why = "%d files are followed already" % FILES
            self._unread[wanted.path, wanted.pid, wanted.stream] = wanted._replace(why=why)
        else:
            followed = Followed(wanted.path, owner, now, self._left.get(inode_of(wanted.path)), wanted.uid)
            followed.refresh()
            self._followed[wanted.path] = followed

    def _made_room(self) -> bool:
        """Whether files that are gone gave up their place; looked for once for all new files."""
        if not self._full:
            self._full = True
            for path, followed in list(self._followed.items()):
                if inode_of(path) == NOWHERE:
                    self._waiting.add(self._ranked(event) for event in followed.finish())
                    del self._followed[path]
                    self._told.pop(path, None)
        return len(self._followed) < FILES

    def _elsewhere(self, wanted: WantedLog) -> Optional[Followed]:
        """The same file, followed under another name."""
        inode = inode_of(wanted.path)
        for followed in self._followed.values():
            if inode != NOWHERE and followed.tail.inode == inode:
                return followed
        return None

    def _read(self, now: float, until: float) -> Iterator[NamedTuple]:
        order = list(self._followed.values())
        self._turn += 1
        start = self._turn % max(1, len(order))
        read: List[Followed] = []
        for place, followed in enumerate(order[start:] + order[:start]):
            followed.refresh()
            if self._file_id(followed, now) in self._settings.not_mine:
                continue
            read.append(followed)
            if place == 0 or time.thread_time() < until:
                followed.read(now, until)
            else:
                followed.sample(now)
            self._waiting.add(self._ranked(event) for event in followed.events)
            followed.events = []
            if not self.shared.ranks:
                self._waiting.add(followed.ending(now))
            for device, inode, offset in followed.tail.left:
                self._left[device, inode] = offset
            followed.tail.left = []
        yield from self._waiting.take(SENT, now)
        told_to = min((followed.told_to for followed in read), default=now)
        if not self._waiting and told_to > float("-inf"):
            yield LogsRead(told_to)

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
        return {
            rank.local_rank: rank.rank for rank in self.shared.ranks if rank.local_rank is not None and rank.rank >= 0
        }

    def _files(self, now: float) -> Iterator[LogFile]:
        for path, followed in self._followed.items():
            identity, tail = self._file_id(followed, now), followed.tail
            why = "another node reads it" if identity in self._settings.not_mine else tail.why
            told = self._told[path]
            if told.due(tail.size, (identity, why, *followed.owners), now):
                shared = self._mounts.of(path, now).shared
                told.files = [
                    LogFile(path, identity, *owner, tail.size, shared, why, tail.modified, followed.left_out)
                    for owner in followed.owners
                ]
            yield from told.files
        for wanted in self._unread.values():
            yield LogFile(wanted.path, "", wanted.pid, wanted.rank, wanted.stream, 0, "", wanted.why, None)

    def _file_id(self, followed: Followed, now: float) -> str:
        told = self._told.setdefault(followed.path, ToldFile())
        if told.inode != followed.tail.inode or not 0 <= now - told.checked < FIND_EVERY:
            told.inode, told.checked = followed.tail.inode, now
            inode = inode_of(followed.path)
            shared = self._mounts.of(followed.path, now).shared
            told.identity = followed.path if inode == NOWHERE else "%s:%d" % (shared or inode[0], inode[1])
        return told.identity

    def _steps(self) -> Iterator[StepCount]:
        for followed in self._followed.values():
            told = followed.steps()
            if told is not None:
                yield told

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
