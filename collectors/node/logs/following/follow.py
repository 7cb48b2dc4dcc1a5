"""One log file of a node: followed like ``tail -F``, parsed as it grows, and its raw lines shown when it is on view."""

from __future__ import annotations

import os
import time
from itertools import groupby
from operator import itemgetter
from typing import Dict, Iterator, List, Optional, Tuple

from collectors.node import redact
from collectors.node.files import named_file, opened
from collectors.node.logs import prefixes
from collectors.node.logs.following.places import LogOwner
from collectors.node.logs.parser import LogParser
from collectors.node.logs.steps import SEEN, LogSteps
from collectors.samples.logs import CommProgress, LogEvent, LogLines, StepCount

CHUNK = 256 << 10
"""Bytes of one read."""
WHOLE, HEAD, END = 8 << 20, 1 << 20, 4 << 20
"""A file up to this size is read from its beginning; of a larger one the head is, where NCCL says which communicators
there are, and the end."""
LAG, KEPT = 32 << 20, 1 << 20
"""When reading is further behind than this at the end of a look, so many bytes of the file's end are read next."""
QUIET = 2.0
"""Seconds without a line, of a log or of one rank's part in it, after which a record is not waited for any more."""
BACKLOG = 10.0
"""Seconds within which what was in a file before is read, even of one that floods."""
LONGEST_SHOWN = 2000
"""Characters of a line on view."""
NOWHERE = (0, 0)
"""Device and inode of a file that is not there."""


class FollowedLog:
    """A log file that is followed: through rotation, truncation, and its coming into being later.

    ``owners`` are the processes that write it; one alone lends its rank to lines without a label. ``uid`` is the user
    whose process named the path: root reads nothing for that user that the user could not.
    """

    def __init__(self, path: str, owner: LogOwner, now: float, uid: Optional[int] = None) -> None:
        self.path = path
        self.owners: Dict[LogOwner, None] = {owner: None}
        self.size = 0
        self.modified: Optional[float] = None
        self.inode = NOWHERE
        self.why = ""
        """Why it cannot be read; empty while it can."""
        self.skipped = 0
        """Bytes left out so far."""
        self.events: List[LogEvent] = []
        self.told_to = float("-inf")
        """What was in the file by then has been told."""
        self._uid = uid
        self._file = -1
        self._offset = 0
        self._parser = self._new_parser(now)
        self._steps = LogSteps()
        self._began = self._looked = now
        self._shown: Optional[int] = None
        """Where what was on view last ends."""

    # --- the file ----------------------------------------------------------------------------------------------------

    @property
    def behind(self) -> int:
        """Bytes that are there and not read yet."""
        return max(0, self.size - self._offset)

    def refresh(self, now: float) -> None:
        """Look at the file again: its size, and whether it is still the same file."""
        if self._file < 0:
            self._open(now)
            return
        status = os.fstat(self._file)
        self.size, self.modified = status.st_size, status.st_mtime
        if self.size < self._offset:
            self._again(now)
        elif not self.behind and file_at(self.path) not in (NOWHERE, self.inode):
            self._close()
            self._open(now)

    def _open(self, now: float) -> None:
        try:
            self._file = opened(self.path) if self._uid is None else named_file(self.path, self._uid)
        except OSError as error:
            self.why = error.strerror or str(error)
            return
        status = os.fstat(self._file)
        before, self.inode = self.inode, (status.st_dev, status.st_ino)
        self.why, self.size, self.modified = "", status.st_size, status.st_mtime
        if before not in (NOWHERE, self.inode):
            self._again(now)

    def _again(self, now: float) -> None:
        """The file was rotated or truncated: line 1 again, but the same process with the same communicators."""
        self._offset = 0
        self.events += self._parser.close()
        before, self._parser = self._parser, self._new_parser(now)
        self._parser.coll = before.coll
        self._parser.reader.read_at = before.reader.read_at

    def _bytes(self, start: int, end: int) -> bytes:
        """Some of the file's bytes, whatever was read; none where it is not open."""
        try:
            return os.pread(self._file, end - start, start) if self._file >= 0 else b""
        except OSError as error:
            self.why = error.strerror or str(error)
            self._close()
            return b""

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    # --- what it says ------------------------------------------------------------------------------------------------

    def read(self, now: float, until: float) -> None:
        """Parse what is there, until this thread has used CPU time up to ``until``; events go to :attr:`events`."""
        self._looked, late = now, b""
        if not self._offset and self.size > WHOLE:
            self.events += self._parser.feed(self._bytes(0, HEAD))
            self._offset = HEAD
            self._skip(END)
        reader = self._parser.reader
        live = reader.read_at is not None
        reader.clock = now if live or self.modified is None else self.modified
        while self.behind:
            data = self._bytes(self._offset, min(self.size, self._offset + CHUNK))
            if not data:
                break
            self._offset += len(data)
            late = (late + data if len(data) < SEEN else data)[-SEEN - 1 :]
            self.events += self._parser.feed(data)
            if time.thread_time() > until:
                self.sample()
                break
        if late:
            self._steps.take(late, now, now if live else self.modified, live=live)
        if not self.behind:
            self.events += self._parser.rest(now, QUIET)
            reader.read_at = now
            if not reader.open:
                self.told_to = now

    def sample(self) -> None:
        """Leave out all but the end of a flood that cannot be kept up with."""
        if self._offset and self.behind > LAG:
            self._skip(KEPT)

    def _skip(self, keep: int) -> None:
        """Leave out all but the last ``keep`` bytes."""
        out = max(0, self.behind - keep)
        self._offset += out
        self.skipped += out
        self.events += self._parser.gap()

    def finish(self) -> List[LogEvent]:
        """Let go of a file that is gone: the events that were still to be told."""
        self._close()
        return self.events + self._parser.close()

    def progress(self) -> List[CommProgress]:
        """Last collective of every communicator in this file.

        Nothing while what was there before is still being read: that is no progress of the job.
        """
        backlog = self._parser.reader.read_at is None and self._looked - self._began < BACKLOG
        return [] if backlog else self._parser.progress()

    def steps(self) -> Optional[StepCount]:
        """How far the file says that training is; None while it says nothing of the kind."""
        owner = self._owner()
        return self._steps.told(self.path, owner.pid, owner.rank)

    # --- whose it is -------------------------------------------------------------------------------------------------

    def adopt(self, owner: LogOwner) -> None:
        """Another process writes the file too."""
        if owner not in self.owners:
            for known in [one for one in self.owners if one.pid is None and one.rank == owner.rank]:
                del self.owners[known]  # it was known by its name alone
            self.owners[owner] = None
            alone = self._owner()
            self._parser.own(alone.rank, alone.pid)

    def _owner(self) -> LogOwner:
        """The process that writes the file, or nobody in particular."""
        first = next(iter(self.owners))
        return first if len({owner.pid for owner in self.owners}) == 1 else LogOwner(None, None, first.stream)

    def _new_parser(self, now: float) -> LogParser:
        owner = self._owner()
        return LogParser(self.path, rank=owner.rank, pid=owner.pid, now=now)

    # --- its lines ---------------------------------------------------------------------------------------------------

    def lines(self, now: float, limit: int, ranks: Dict[int, int]) -> Iterator[LogLines]:
        """Raw lines for the screen that it has not shown, at most ``limit`` bytes; ``ranks`` by local rank.

        What was there when it came on view first has the times that are in the lines, or in those before them; no line
        is younger than the last write to the file, however long the file was off view.
        """
        old = self._shown is None
        shown = 0 if self._shown is None or self._shown > self.size else self._shown
        start = max(shown, self.size - limit)
        data = self._bytes(start, self.size)
        end = data.rfind(b"\n") + 1
        self._shown = start + end
        raw = data[:end].split(b"\n")[:-1]
        skipped = 0 if old else (start - shown) * len(raw) // max(1, end)
        latest = now if self.modified is None else min(now, self.modified)
        owner = self._owner()
        rows: List[Tuple[Optional[int], Optional[float], str]] = []
        for each in raw:
            whole = each.rstrip(b"\r").rsplit(b"\r", 1)[-1][: 4 * LONGEST_SHOWN]
            line = next(prefixes.records(whole, 0, now))
            rank, local = line.stream.rank, line.stream.local_rank
            rank = rank if rank is not None else owner.rank if local is None else ranks.get(local, owner.rank)
            told = prefixes.moment(line, now) if old else None
            at = told if told is not None or not rows else rows[-1][1]
            rows.append((rank, at, redact.shapes(whole.decode("utf-8", "replace")[:LONGEST_SHOWN])))
        first = next((at for _, at, _ in rows if at is not None), latest)
        for (rank, told), run in groupby(rows, itemgetter(0, 1)):
            at = min(latest, first if told is None else told)
            yield LogLines(self.path, owner.pid, rank, owner.stream, at, [text for _, _, text in run], skipped)
            skipped = 0


def file_at(path: str) -> Tuple[int, int]:
    """Device and inode of what is at a path."""
    try:
        there = os.stat(path)
    except OSError:
        return NOWHERE
    return there.st_dev, there.st_ino
