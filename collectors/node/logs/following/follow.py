"""One log file of a node: followed like ``tail -F``, parsed as it grows; its raw lines are sent while it is on view."""

from __future__ import annotations

import os
import time
from itertools import groupby
from operator import itemgetter
from typing import Dict, Iterator, List, Optional, Tuple

from collectors.node.files import named_file, opened
from collectors.node.logs import prefixes
from collectors.node.logs.following.places import LogOwner
from collectors.node.logs.parser import LogParser
from collectors.node.logs.steps import LogSteps
from collectors.node.redact import LogRedactor
from collectors.samples.logs import CommProgress, LogEvent, LogLines, StepCount

CHUNK = 256 << 10
"""Bytes of one read."""
LAG, HEAD, END = 16 << 20, 1 << 20, 4 << 20
"""With more than LAG unread bytes, only the last END are read; of a file not read before also the first HEAD, where
NCCL prints its communicators."""
QUIET = 2.0
"""Seconds without a line (of the log, or of one rank in it) after which an open record is closed."""
LONGEST_SHOWN = 2000
"""Characters of a line on view at most."""
NOWHERE = (0, 0)
"""Device and inode of a missing file."""


class FollowedLog:
    """A log file, followed through rotation, truncation and late creation, with its parser.

    ``owners`` are the processes that write it; a single owner gives its rank to lines without a label. ``uid`` is the
    user whose process named the path: as root, only read what that user may read.
    """

    def __init__(self, path: str, owner: LogOwner, now: float, uid: Optional[int] = None) -> None:
        self.path = path
        self.size = 0
        self.modified: Optional[float] = None
        self.inode = NOWHERE
        self.why = ""
        """Why the file cannot be read; empty while it can."""
        self.offset = 0
        """Offset of the next read."""
        self.owners: Dict[LogOwner, None] = {}
        self.skipped = 0
        """Bytes left out so far."""
        self.read_to = float("-inf")
        """Events of everything written before this time have been returned."""
        self.parser = LogParser(path, now=now)
        self._uid = uid
        self._file = -1
        self._steps = LogSteps()
        self._redactor = LogRedactor()
        self._shown: Optional[int] = None
        """Offset of the end of the lines last sent for viewing; None if never viewed."""
        self.adopt(owner)

    @property
    def behind(self) -> int:
        """Unread bytes."""
        return max(0, self.size - self.offset)

    def refresh(self) -> bool:
        """Check the file again; True if it was replaced or truncated."""
        if self._file >= 0:
            status = os.fstat(self._file)
            self.size, self.modified = status.st_size, status.st_mtime
            anew = self.size < self.offset
            if not anew and (self.behind or inode_of(self.path) in (NOWHERE, self.inode)):
                return False
            if not anew:
                self.close()
        if self._file < 0:
            try:
                self._file = opened(self.path) if self._uid is None else named_file(self.path, self._uid)
            except OSError as error:
                self.why = error.strerror or str(error)
                return False
            status, before = os.fstat(self._file), self.inode
            self.inode = status.st_dev, status.st_ino
            self.why, self.size, self.modified = "", status.st_size, status.st_mtime
            anew = before not in (NOWHERE, self.inode)
        if anew:
            self.offset = 0
        return anew

    def bytes(self, start: int, end: int) -> bytes:
        """Bytes of the file from ``start`` to ``end``; empty if it cannot be read."""
        try:
            return os.pread(self._file, end - start, start) if self._file >= 0 else b""
        except OSError as error:
            self.why = error.strerror or str(error)
            self.close()
            return b""

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def adopt(self, owner: LogOwner) -> None:
        """Add a process that writes the file."""
        for known in [other for other in self.owners if other.pid is None and other.rank == owner.rank]:
            del self.owners[known]  # an owner guessed from the file name
        self.owners[owner] = None
        self.parser.set_owner(self._owner.rank, self._owner.pid)

    @property
    def _owner(self) -> LogOwner:
        """The only process that writes the file; without pid and rank if there are several."""
        first = next(iter(self.owners))
        return first if len({owner.pid for owner in self.owners}) == 1 else LogOwner(None, None, first.stream)

    def read(self, now: float, until: float) -> List[LogEvent]:
        """Parse unread bytes until this thread's CPU time reaches ``until``; return the events."""
        parser, reader, steps = self.parser, self.parser.reader, self._steps
        reader.clock = now if reader.live or self.modified is None else self.modified
        events: List[LogEvent] = []
        if self.behind > LAG:
            head = b"" if self.offset else self.bytes(0, HEAD)
            events += parser.feed(head) + parser.gap()
            self.skipped += self.behind - len(head) - END
            self.offset = self.size - END
        while self.behind:
            data = self.bytes(self.offset, min(self.size, self.offset + CHUNK))
            if not data:
                break
            self.offset += len(data)
            events += parser.feed(data)
            steps.take(data, now, None if self.behind and not reader.live else reader.clock, live=reader.live)
            if time.thread_time() > until:
                break
        if not self.behind:
            events += parser.rest(now - QUIET)
            reader.live = True
            if not reader.open:
                self.read_to = now
        return events

    def progress(self) -> List[CommProgress]:
        """Last collective of every communicator in this file.

        Empty while old contents are still being read: they are no progress of the job.
        """
        return self.parser.collectives.known() if self.parser.reader.live else []

    def steps(self) -> Optional[StepCount]:
        """Training progress according to the file; None without a step count."""
        return self._steps.best(self.path, self._owner.pid)

    def lines(self, now: float, limit: int, ranks: Dict[int, int]) -> Iterator[LogLines]:
        """Raw lines not yet shown on the screen, at most ``limit`` bytes; ``ranks`` by local rank.

        On the first view, lines get the time printed in them or in a line before; later lines get the time of the last
        write to the file. No line gets a time after that write.
        """
        old = self._shown is None
        shown = 0 if self._shown is None or self._shown > self.size else self._shown
        start = max(shown, self.size - limit)
        data = self.bytes(start, self.size)
        end = data.rfind(b"\n") + 1
        self._shown = start + end
        raw = [line.rstrip(b"\r").rsplit(b"\r", 1)[-1][: 4 * LONGEST_SHOWN] for line in data[:end].split(b"\n")[:-1]]
        skipped = 0 if old else (start - shown) * len(raw) // max(1, end)
        latest = now if self.modified is None else min(now, self.modified)
        known = [next(prefixes.records(line, 0, now)) for line in raw]
        times = [prefixes.moment(line, now) if old else latest for line in known]
        at = next((moment for moment in times if moment is not None), latest)
        texts = self._redactor.shown([line.decode("utf-8", "replace") for line in raw])
        rows: List[Tuple[Optional[int], float, str]] = []
        for text, line, moment in zip(texts, known, times):
            rank, local, owner = line.stream.rank, line.stream.local_rank, self._owner.rank
            rank = rank if rank is not None else owner if local is None else ranks.get(local, owner)
            at = at if moment is None else min(latest, moment)
            rows.append((rank, at, text[:LONGEST_SHOWN]))
        for (rank, at), run in groupby(rows, itemgetter(0, 1)):
            yield LogLines(self.path, rank, at, [text for _, _, text in run], skipped)
            skipped = 0


def inode_of(path: str) -> Tuple[int, int]:
    """Device and inode of the file at a path; :data:`NOWHERE` if there is none."""
    try:
        there = os.stat(path)
    except OSError:
        return NOWHERE
    return there.st_dev, there.st_ino
