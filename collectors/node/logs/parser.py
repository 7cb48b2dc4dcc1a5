"""The incremental log parser: bytes in, typed events out; the size of the chunks does not affect the events.

Whole blocks of lines are searched for the words of all rules (:mod:`matching`). Only lines with a word, and lines
inside an open record (:mod:`reader`), are parsed. COLL lines never become events: :mod:`collective_counts` sums them
up.
"""

from __future__ import annotations

import re
from functools import partial
from typing import List, Optional, Sequence, Tuple

from collectors.node.logs import matching, prefixes
from collectors.node.logs.collective_counts import COUNT, VARYING, CommunicatorProgress
from collectors.node.logs.prefixes import LabelledLine, LogWriter
from collectors.node.logs.reader import Reader
from collectors.samples.logs import LogEvent

PIECE = 256 << 10
"""Bytes searched at once, few enough for the CPU cache; longer lines are cut."""
BEFORE = 64
"""Lines before a record in which its time and its introduction are searched."""
_DRAWN_OVER = re.compile(rb"(?m)^[^\n]*\r(?=[^\r\n])")
"""The part of a line that a terminal has overwritten: a progress bar draws each state over the last one."""


class LogParser:
    """Parser of one log.

    ``source`` names the log in events; ``rank``, ``pid`` and ``host`` are those of its only writer, if known; ``now``
    (seconds since the epoch: time of reading, or of the file's last change) gives the year to times without one.
    """

    def __init__(
        self, source: str, rank: Optional[int] = None, pid: Optional[int] = None, host: str = "", now: float = 0.0
    ) -> None:
        self.line = 1
        """Number of the next line."""
        self.collectives = CommunicatorProgress(source, rank, now)
        self.reader = Reader(source, rank, pid, host, now)
        self._now = now
        self._pending = b""
        self._torn = False
        """True while the next line lacks its beginning."""
        self._before: List[bytes] = []

    def set_owner(self, rank: Optional[int], pid: Optional[int]) -> None:
        """From now on, lines without a label belong to this process; None if unknown."""
        self.collectives.settle()
        self.reader.rank = self.collectives.rank = rank
        self.reader.pid = pid

    def feed(self, chunk: bytes) -> List[LogEvent]:
        """Take the next bytes; return events of the records that ended in them."""
        for start in range(0, len(chunk), PIECE):
            data = self._pending + chunk[start : start + PIECE]
            whole = data.rfind(b"\n") + 1
            first = data.find(b"\n") + 1 if self._torn else 0
            self._pending = b"" if self._torn and not whole else _DRAWN_OVER.sub(b"", data[whole:])[:PIECE]
            self._torn = self._torn and not whole
            if first < whole:
                self._block(data[first : whole - 1])
        return self.reader.events()

    def rest(self, before: float) -> List[LogEvent]:
        """Close records without a new line since ``before``, and return their events; call after all was read."""
        self.reader.rest(before)
        return self.reader.events()

    def gap(self) -> List[LogEvent]:
        """Handle a gap: bytes, and an unknown number of lines, were left out before the next chunk."""
        self._pending, self._before, self._torn = b"", [], True
        self.collectives.settle()
        self.collectives.whole = False
        self.reader.rest()
        self.reader.counted = False
        return self.reader.events()

    def close(self) -> List[LogEvent]:
        """End the log: return the remaining events, including those of an incomplete last line."""
        if self._pending:
            self._block(self._pending)
        self.reader.rest()
        self._pending, self._before, self._torn = b"", [], False
        return self.reader.events()

    def restart(self) -> List[LogEvent]:
        """Handle rotation or truncation: line numbers restart at 1; process and communicators stay the same."""
        events, self.line, self.reader.counted = self.close(), 1, True
        return events

    def _block(self, text: bytes) -> None:
        """Count the collectives in whole lines; give the reader lines with a word, and all while a record is open."""
        if b"\r" in text:
            text = _DRAWN_OVER.sub(b"", text.replace(b"\r\n", b"\n"))
        lines = text.split(b"\n")
        kinds = (VARYING.sub(COUNT, text) if COUNT in text else text.translate(None, matching.DIGITS)).split(b"\n")
        if len(kinds) != len(lines):  # a torn COLL line swallowed the next
            kinds = lines
        masks = matching.masks(set(kinds))
        launches = {kind for kind, mask in masks.items() if mask & matching.LAUNCHES and b"NCCL INFO " in kind}
        inits = {kind for kind, mask in masks.items() if mask & matching.INITIALISES}
        if launches or inits:
            self.collectives.take(lines, kinds, self.line, launches, inits)
        if self.reader.open or len(masks) > len(launches):
            for index, kind in enumerate(kinds):
                mask = masks.get(kind, 0)
                if (mask or self.reader.open) and kind not in launches:
                    for line in prefixes.records(lines[index], self.line + index, self._now):
                        self.reader.read(line, mask, partial(self._in_front, lines, index))
        self.line += len(lines)
        self._before = (self._before + lines[-BEFORE:])[-BEFORE:]

    def _in_front(self, lines: Sequence[bytes], index: int) -> List[bytes]:
        """The last lines before line ``index`` of a block."""
        return [*self._before, *lines[max(0, index - BEFORE) : index]][-BEFORE:]


def kernel_events(lines: Sequence[Tuple[float, str]], source: str) -> List[LogEvent]:
    """Events of kernel log lines given as (time, text)."""
    reader = Reader(source, None, None, "", 0.0)
    raw = [prefixes.seen(said).encode("utf-8", "replace") for _, said in lines]
    masks = matching.masks(set(raw))
    for (at, said), key in zip(lines, raw):
        mask = masks.get(key, 0) & matching.KERNEL
        if mask:
            line = LabelledLine(0, prefixes.seen(said), LogWriter(), at, labelled=False, program="kernel")
            reader.read(line, mask, list)
    return reader.events()
