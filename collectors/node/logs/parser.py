"""The incremental log parser: bytes in, in chunks of any size, typed events out; the same for every way of chunking.

Whole chunks are searched for the literals of all rules (:mod:`prefilter`); only lines that have one are looked at, and
lines inside a record that is still open (:mod:`reader`). COLL lines never become events: :mod:`collective_counts` sums
them up.
"""

from __future__ import annotations

import re
from typing import List, Optional, Tuple

from collectors.node.logs import nccl_coll_filter, prefixes, times
from collectors.node.logs.collective_counts import CommunicatorProgress
from collectors.node.logs.matching import SCANNER
from collectors.node.logs.prefixes import Line, LogWriter
from collectors.node.logs.reader import Reader
from collectors.samples.logs import CommProgress, LogEvent

PIECE = 256 << 10
"""Bytes that are searched at once, few enough for a cache; a line longer than this is cut."""
KERNEL_LINE = 4000
"""Characters of a line that are looked at."""
BEFORE = 4096
"""Bytes before an event in which a time is looked for when it has none of its own."""


class LogParser:
    """Parser of one log.

    ``source`` names it in the events; ``rank``, ``pid`` and ``host`` are its owner's where one process writes it;
    ``now`` (seconds since the epoch) gives the year to times without one: the moment of reading, or the file's age.
    ``tail`` is how many bytes of the last lines are kept.
    """

    def __init__(
        self,
        source: str,
        rank: Optional[int] = None,
        pid: Optional[int] = None,
        host: str = "",
        now: float = 0.0,
        tail: int = BEFORE,
    ) -> None:
        self.source = source
        self.line = 1
        """Number of the next line."""
        self.coll = CommunicatorProgress(source, rank, now)
        self._reader = Reader(source, rank, pid, host, now)
        self._sifter = nccl_coll_filter.Sifter()
        self._now = now
        self._pending = b""
        self._cutting = False
        self._tail = b""
        self._whole: Optional[bytes] = b""
        """The tail as it was read, where its ends of lines are those of the log."""
        self._spans: List[Tuple[int, int]] = []
        self._kept = max(tail, BEFORE)

    @property
    def read_at(self) -> Optional[float]:
        """Time of events whose lines have none; set while following, None for what was there before."""
        return self._reader.read_at

    @read_at.setter
    def read_at(self, at: Optional[float]) -> None:
        self._reader.read_at = at

    def own(self, rank: Optional[int], pid: Optional[int]) -> None:
        """From now on lines without a label are those of this process; None for nobody in particular."""
        self._reader.rank = self.coll.rank = rank
        self._reader.pid = pid

    def feed(self, chunk: bytes) -> List[LogEvent]:
        """Take the next bytes; events of the records that ended in them."""
        for start in range(0, len(chunk), PIECE):
            self._take(chunk[start : start + PIECE])
        return self._flush()

    def idle(self) -> List[LogEvent]:
        """Nothing came for a while: events of records that were waiting for their next line."""
        self._reader.end()
        return self._flush()

    def rest(self, now: float, longest: float) -> List[LogEvent]:
        """All was read by ``now``: events of records of which nothing more came for ``longest`` seconds."""
        self._reader.rest(now, longest)
        return self._flush()

    def gap(self) -> List[LogEvent]:
        """What follows is not what came next: bytes were left out, and nobody knows how many lines."""
        self._pending = b""
        self._cutting = True
        self._tail = self._whole = b""
        self._spans = []
        self.coll.whole = False
        events = self.idle()
        self._reader.counted = False
        return events

    def close(self) -> List[LogEvent]:
        """The log is over: what was left, a last line without an end too."""
        if self._pending:
            pending, self._pending = self._pending, b""
            self._block(pending if pending.endswith(b"\r") else pending + b"\n")
        return self.idle()

    def last_said(self, event: LogEvent) -> int:
        """The last line on which exactly what an event tells was said: what says the same again is not sent."""
        return self._reader.repeats.last(event)

    def progress(self) -> List[CommProgress]:
        """Last collective of every communicator that the log tells of."""
        return self.coll.known()

    def last_time(self) -> Optional[float]:
        """The last time that the log's last lines print."""
        return times.last(self._tail[-BEFORE:].decode("utf-8", "replace"), self._now)

    @property
    def tail_line(self) -> int:
        """Number of a line not below the tail's first: states of a progress bar, and what is left out, are no lines."""
        if self._whole is not None:
            return self.line - self._whole.count(b"\n")
        return self._spans[0][1] if self._spans else self.line

    @property
    def tail(self) -> bytes:
        """The last whole lines, of as many bytes as were asked for, :data:`BEFORE` at least."""
        return self._tail

    def _take(self, piece: bytes) -> None:
        data = self._pending + piece
        cut = max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1)) + 1
        block, pending = data[:cut], data[cut:]
        if self._cutting and block:
            over = min(at for at in (block.find(b"\n"), block.find(b"\r"), len(block)) if at >= 0)
            block, self._cutting = block[over:], False
        if self._cutting:
            pending = pending[-1:]
        elif len(pending) > PIECE:
            block, pending, self._cutting = block + pending[:PIECE] + b"\r", b"", True
        self._pending = pending
        if block:
            self._block(block)

    def _block(self, block: bytes) -> None:
        """Parse whole lines. A carriage return alone ends a record (progress bars), but is not counted as a line."""
        first, numbers = self.line, _LineNumbers(block, self.line)
        count = block.count(b"\n")
        self.line += count
        text = block
        if b"\r" in block:
            text = block.replace(b"\r\n", b" \n").replace(b"\r", b"\n")
            count = text.count(b"\n")
        if nccl_coll_filter.MARK in text:
            text = self._sifted(text, count, numbers)
        if text:
            self._text(text, numbers)
            self._tail = (self._tail + text)[-self._kept :]
        self._count(block, text, first)

    def _count(self, block: bytes, text: bytes, first: int) -> None:
        """Remember from which line on the tail holds what it holds: exactly, unless lines were left out of it."""
        whole = len(text) == len(block) and (self._whole is not None or len(block) >= self._kept)
        self._whole = ((self._whole or b"") + block)[-self._kept :] if whole else None
        if text:
            self._spans = [*self._spans, (len(text), first)]
        while sum(size for size, _ in self._spans[1:]) >= self._kept:
            self._spans.pop(0)

    def _sifted(self, text: bytes, count: int, numbers: "_LineNumbers") -> bytes:
        """Leave the collectives and NCCL's small talk out of a block; what is left has to be searched."""
        sifted = self._sifter.sift(text, count)
        self.coll.take(sifted, numbers.of_line)
        numbers.keep(sifted.rest)
        return b"".join([sifted.raw[index] + b"\n" for index in sifted.rest])

    def _text(self, text: bytes, numbers: "_LineNumbers") -> None:
        """Show the reader the lines that have a literal, and all lines while it holds a record open."""
        hits = SCANNER.hits(text)
        waiting = iter(hits)
        upcoming = next(waiting, None)
        at = 0
        while at < len(text):
            if not self._reader.open:
                while upcoming is not None and upcoming < at:
                    upcoming = next(waiting, None)
                if upcoming is None:
                    return
                at = upcoming
            end = text.find(b"\n", at)
            self._raw(text, at, end, hits.get(at, 0), numbers)
            at = end + 1

    def _raw(self, text: bytes, at: int, end: int, mask: int, numbers: "_LineNumbers") -> None:
        def before() -> bytes:
            return (self._tail[-BEFORE:] + text[max(0, at - BEFORE) : at])[-BEFORE:]

        raw = text[at:end]
        found = list(prefixes.records(raw, numbers.of_offset(text, at), self._now))
        for record in found:
            whole = len(found) == 1 and len(raw) <= prefixes.LONGEST
            self._reader.read(record, mask if whole else SCANNER.mask(record.text.encode("utf-8", "replace")), before)

    def _flush(self) -> List[LogEvent]:
        events, self._reader.events = self._reader.events, []
        return events


def kernel_event(text: str, at: Optional[float], source: str, line: int = 0) -> Optional[LogEvent]:
    """The event of one line of the kernel's log; None when it says nothing. ``at`` is the line's time."""
    clipped = text[:KERNEL_LINE]
    mask = SCANNER.mask(clipped.encode("utf-8", "replace"))
    if not mask:
        return None
    reader = Reader(source, None, None, "", at or 0.0)
    reader.read(Line(line, clipped, LogWriter(), at, None, labelled=False, program="kernel"), mask, bytes)
    reader.end()
    return next((found._replace(at=at) for found in reader.events if found.kind.startswith("kernel.")), None)


_END = re.compile(rb"\r?\n|\r")


class _LineNumbers:
    """Line numbers of one block, and of the text that is left when some of its lines are taken out.

    Offsets must be asked for in ascending order. A carriage return alone ends a record but no line.
    """

    def __init__(self, block: bytes, first: int) -> None:
        self._block = block
        self._first = first
        self._ends: Optional[List[int]] = None
        if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
            self._ends = _record_ends(block)
        self._kept: Optional[List[int]] = None
        self._at = 0
        self._index = 0

    def keep(self, lines: List[int]) -> None:
        """From now on offsets are those of a text that has only these lines of the block."""
        self._kept = lines

    def of_line(self, index: int) -> int:
        """Number of the block's n-th record."""
        if self._ends is None:
            return self._first + index
        start = self._ends[index - 1] if index > 0 else 0
        return self._first + self._block.count(b"\n", 0, start)

    def of_offset(self, text: bytes, offset: int) -> int:
        """Number of the line that begins at an offset of the text."""
        self._index += text.count(b"\n", self._at, offset)
        self._at = offset
        return self.of_line(self._index if self._kept is None else self._kept[self._index])


def _record_ends(block: bytes) -> List[int]:
    """Offsets after each record's end: LF, CR LF or CR."""
    return [match.end() for match in _END.finditer(block)]
