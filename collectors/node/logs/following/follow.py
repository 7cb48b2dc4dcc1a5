"""One log file on a node: followed, parsed, and its raw lines shown when it is on view."""

from __future__ import annotations

import os
import time
from typing import Dict, Iterator, List, NamedTuple, Optional

from collectors.node import files, redact
from collectors.node.logs import elastic_report, prefixes
from collectors.node.logs.following.steps import SEEN, LogSteps
from collectors.node.logs.following.tail import Tail
from collectors.node.logs.parser import LogParser
from collectors.samples.logs import CommProgress, LogEvent, LogLines, StepCount

WHOLE = 8 << 20
"""A file up to this size is read from its beginning."""
HEAD = 1 << 20
END = 4 << 20
"""Of a larger one: its head, where NCCL says which communicators there are, and its end."""
LAG = 32 << 20
"""When reading is further behind than this at the end of a look, the log is sampled."""
KEPT = 1 << 20
"""Bytes of a flood's end that are read when it is sampled."""
SAY_EVERY = 10.0
"""Seconds between two events that say how much was left out."""
QUIET = 2.0
"""Seconds without growth, of a log or of one rank's part in it, after which a record is not waited for any more."""
BACKLOG = 10.0
"""Seconds within which what was in a file before is read, even of one that floods."""
CLOCKS = 10.0
"""Seconds that a file server's clock may differ from the node's before its times are left alone."""
SHOWN = 65536
"""Bytes of a file on view that are sent at once."""


LONGEST_SHOWN = 2000
"""Characters of a line on view."""


class LogWriter(NamedTuple):
    """A process that writes a file."""

    pid: Optional[int]
    rank: Optional[int]
    stream: str


class Followed:
    """A file that is followed. ``owners`` are those who write it; one alone lends its rank to lines without a label."""

    def __init__(
        self,
        path: str,
        owner: LogWriter,
        now: float,
        start: Optional[int] = None,
        uid: Optional[int] = None,
    ) -> None:
        self.path = path
        self.owners: Dict[LogWriter, None] = {owner: None}
        self.tail = Tail(path, WHOLE, END, start, uid)
        self.events: List[LogEvent] = []
        self._parser = self._new_parser(now)
        self._steps = LogSteps()
        self._began = self._grown = now
        self._reading_backlog = False
        self._document_size = self._ended_at = -1
        self._started = False
        self._shown: Optional[int] = None
        self.told_to = self._looked = float("-inf")
        """What was in the file by then has been told, but for a record that may go on."""
        self.left_out = 0
        """Bytes of floods that were not read."""
        self._unsaid = 0
        self._said_at = float("-inf")

    def progress(self) -> List[CommProgress]:
        """Last collective of every communicator in this file.

        Nothing while what was there before is still being read: that is no progress of the job.
        """
        return [] if self._reading_backlog else self._parser.progress()

    def steps(self) -> Optional[StepCount]:
        """How far the file says that training is; None while it says nothing of the kind."""
        owner = self._owner()
        return self._steps.told(self.path, owner.pid, owner.rank)

    def refresh(self) -> None:
        """Look at the file again."""
        self.tail.refresh()

    def read(self, now: float, until: float) -> None:
        """Parse what is there, until this thread has used CPU time up to ``until``; events go to :attr:`events`."""
        if self.path.endswith(".json"):
            self._document()
            self.told_to = now
            return
        if not self._started and self.tail.size:
            self._start()
        grown, late, live = False, b"", self._parser.read_at is not None
        for chunk in self.tail.read():
            grown = True
            late = (late + chunk.data if len(chunk.data) < SEEN else chunk.data)[-SEEN - 1 :]
            if chunk.fresh and self._started:
                self._again(now)
            self._started = True
            self.events += self._parser.feed(chunk.data)
            if time.thread_time() > until:
                self.sample(now)
                break
        if grown:
            self._grown = now
            self._steps.take(late, now, self._written(now, live=live), live=live)
        rests = self._rests(now, grown=grown)
        if rests:
            self.events += self._parser.idle()
        if not self.tail.behind:
            self.events += self._parser.rest(now, QUIET)  # one rank's last words, while others write on
            self._parser.read_at = now
            if rests or grown:  # of what came just now the last record may go on
                self.told_to = now if rests else self._looked
            self._looked = now
        self._reading_backlog = self._parser.read_at is None and now - self._began < BACKLOG
        self._say(now)

    def _rests(self, now: float, *, grown: bool) -> bool:
        """Whether what was read last is all that will come for now, so that it is told.

        What was written long ago is, as soon as it is read; a file server's clock may be a little off.
        """
        if not grown:
            return not 0 <= now - self._grown <= QUIET  # a clock that was set back must not make it wait for a day
        modified = self.tail.modified
        return not self.tail.behind and modified is not None and now - modified > max(QUIET, CLOCKS)

    def _written(self, now: float, *, live: bool) -> Optional[float]:
        """When the last bytes were written; a file server's clock is not trusted for those that came just now."""
        modified = self.tail.modified
        return now if live and (modified is None or abs(now - modified) > CLOCKS) else modified

    def ending(self, now: float) -> Iterator[LogEvent]:
        """Say once how a file ends that nobody has written to for a while, and that has been read to its end."""
        size, modified = self.tail.size, self.tail.modified
        if self.tail.behind or size == self._ended_at or modified is None or not size or now - modified < QUIET:
            return
        self._ended_at = size
        owner = self._owner()
        last = [each for each in self._peek(max(0, size - LONGEST_SHOWN), size).splitlines() if each.strip()]
        text = files.text(last[-1]).strip() if last else ""
        yield from self._parser.idle()
        yield LogEvent("log.end", modified, owner.rank, "", owner.pid, self.path, 0, text, {})

    def sample(self, now: float) -> None:
        """Leave out all but the end of a flood that cannot be kept up with, and say so."""
        if self.tail.behind > LAG:
            out = self.tail.skip(KEPT)
            self.left_out += out
            self._unsaid += out
            self.events += self._parser.gap()
        self._say(now)

    def _say(self, now: float) -> None:
        if not self._unsaid or 0 <= now - self._said_at < SAY_EVERY:
            return
        out, self._unsaid, self._said_at = self._unsaid, 0, now
        text = "%d bytes of this log were not read: it grows faster than it may be read here" % out
        owner = self._owner()
        self.events.append(LogEvent("log.sampled", now, owner.rank, "", owner.pid, self.path, 0, text, {"bytes": out}))

    def lines(self, now: float, limit: int, ranks: Dict[int, int]) -> Iterator[LogLines]:
        """New raw lines for the screen, at most ``limit`` bytes; ``ranks`` maps local to global ranks."""
        size = self.tail.size
        old = self._shown is None or self._shown > size
        if self._shown is None or self._shown > size:
            self._shown = max(0, size - limit)
            skipped_bytes = 0
        else:
            skipped_bytes = max(0, size - limit - self._shown)
            self._shown += skipped_bytes
        data = self._peek(self._shown, size)
        end = data.rfind(b"\n") + 1
        if not end:
            return
        self._shown += end
        raw = data[:end].split(b"\n")[:-1]
        skipped = skipped_bytes * len(raw) // max(1, end)
        latest = now if not old or self.tail.modified is None else min(now, self.tail.modified)
        owner = self._owner()
        runs: List[LineRun] = list(line_runs(raw, owner.rank, ranks, now, timed=old))
        first = next((run.at for run in runs if run.at is not None), latest)
        for run in runs:
            at = latest if not old else min(latest, first if run.at is None else run.at)
            before = old and run.at is None
            yield LogLines(self.path, owner.pid, run.rank, owner.stream, at, run.lines, skipped, before, old)
            skipped = 0

    def hide(self) -> None:
        """Not on view any more."""
        self._shown = None

    def finish(self) -> List[LogEvent]:
        """Let go of a file that is gone: the events that were still to be told."""
        events, self.events = self.events + self._parser.close(), []
        self.close()
        return events

    def close(self) -> None:
        """Let go of the file."""
        self.tail.close()

    def _peek(self, start: int, end: int) -> bytes:
        try:
            file = self.tail.opened()
        except OSError:
            return b""
        try:
            return os.pread(file, end - start, start)
        except OSError:
            return b""
        finally:
            os.close(file)

    def _start(self) -> None:
        """Of a file that is too large to be read whole, read the head before the end."""
        if self.tail.skipped:
            self.events += self._parser.feed(self._peek(0, min(HEAD, self.tail.skipped)))
            self.events += self._parser.gap()

    def _again(self, now: float) -> None:
        """The file was rotated or truncated: line 1 again, but the same process with the same communicators."""
        self.events += self._parser.close()
        before, self._parser = self._parser, self._new_parser(now)
        self._parser.coll = before.coll
        self._parser.read_at = before.read_at

    def _document(self) -> None:
        if self.tail.size == self._document_size:
            return
        self._document_size = self.tail.size
        said = elastic_report.error_file(self._peek(0, min(self.tail.size, 1 << 20)))
        if said is not None:
            owner = self._owner()
            message = str(said.data.get("message", ""))
            self.events.append(
                LogEvent(said.kind, said.at, owner.rank, "", owner.pid, self.path, 1, message[:4000], said.data)
            )

    def _owner(self) -> LogWriter:
        """Who writes the file: one process, or nobody in particular."""
        pids = {owner.pid for owner in self.owners}
        first = next(iter(self.owners))
        return first if len(pids) == 1 else LogWriter(None, None, first.stream)

    def _new_parser(self, now: float) -> LogParser:
        owner = self._owner()
        return LogParser(self.path, rank=owner.rank, pid=owner.pid, now=now)

    def adopt(self, owner: LogWriter) -> None:
        """Another process writes the file too."""
        if owner in self.owners:
            return
        for known in [one for one in self.owners if one.pid is None and one.rank == owner.rank]:
            del self.owners[known]  # it was known by its name alone
        self.owners[owner] = None
        alone = self._owner()
        self._parser.own(alone.rank, alone.pid)


class LineRun(NamedTuple):
    """Neighbouring lines of one rank and one time: that in them, or in a line before them."""

    rank: Optional[int]
    at: Optional[float]
    lines: List[str]


def line_runs(
    raw: List[bytes], owner: Optional[int], ranks: Dict[int, int], now: float, *, timed: bool
) -> Iterator[LineRun]:
    """Runs of lines of one rank, by label; ``owner`` is the rank of lines without one. Times only where ``timed``."""
    run: List[str] = []
    current: Optional[int] = owner
    at: Optional[float] = None
    for each in raw:
        whole = each.rstrip(b"\r").rsplit(b"\r", 1)[-1][: 4 * LONGEST_SHOWN]
        first = next(iter(prefixes.records(whole, 0, now)))
        rank = first.stream.rank
        if rank is None and first.stream.local_rank is not None:
            rank = ranks.get(first.stream.local_rank)
        if rank is None:
            rank = owner
        told = prefixes.moment(first, now) if timed else None
        if run and (rank != current or (told is not None and told != at)):
            yield LineRun(current, at, run)
            run = []
        current = rank
        at = at if told is None else told
        run.append(redact.shapes(whole.decode("utf-8", "replace")[:LONGEST_SHOWN]))
    if run:
        yield LineRun(current, at, run)
