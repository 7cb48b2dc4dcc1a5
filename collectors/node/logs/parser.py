"""The incremental log parser: bytes in, in chunks of any size, typed events out; the same for every way of chunking.

Whole blocks of lines are searched for the words of all rules (:mod:`matching`); only lines that have one are looked at,
and lines inside a record that is still open (:mod:`reader`). COLL lines never become events: :mod:`collective_counts`
sums them up.
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
"""Bytes that are searched at once, few enough for a cache; a line longer than this is cut."""
BEFORE = 64
"""Lines in front of a record in which its time, and what introduces it, are looked for."""
_DRAWN_OVER = re.compile(rb"(?m)^[^\n]*\r(?=[^\r\n])")
"""What a terminal shows no more of a line: a progress bar draws its next state over the last one."""


class LogParser:
    """Parser of one log.

    ``source`` names it in the events; ``rank``, ``pid`` and ``host`` are its owner's where one process writes it;
    ``now`` (seconds since the epoch) gives the year to times without one: the moment of reading, or the file's age.
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
        """True while the first line that comes has lost its beginning."""
        self._before: List[bytes] = []

    def own(self, rank: Optional[int], pid: Optional[int]) -> None:
        """From now on lines without a label are those of this process; None for nobody in particular."""
        self.collectives.settle()
        self.reader.rank = self.collectives.rank = rank
        self.reader.pid = pid

    def feed(self, chunk: bytes) -> List[LogEvent]:
        """Take the next bytes; events of the records that ended in them."""
        for start in range(0, len(chunk), PIECE):
            data = self._pending + chunk[start : start + PIECE]
            whole = data.rfind(b"\n") + 1
            first = data.find(b"\n") + 1 if self._torn else 0
            self._pending = b"" if self._torn and not whole else _DRAWN_OVER.sub(b"", data[whole:])[:PIECE]
            self._torn = self._torn and not whole
            if first < whole:
                self._block(data[first : whole - 1])
        return self.reader.told()

    def rest(self, before: float) -> List[LogEvent]:
        """All was read: events of records of which nothing more came since ``before``."""
        self.reader.rest(before)
        return self.reader.told()

    def gap(self) -> List[LogEvent]:
        """What follows is not what came next: bytes were left out, and nobody knows how many lines."""
        self._pending, self._before, self._torn = b"", [], True
        self.collectives.settle()
        self.collectives.whole = False
        self.reader.rest()
        self.reader.counted = False
        return self.reader.told()

    def close(self) -> List[LogEvent]:
        """The log is over: what was left, a last line without an end too."""
        if self._pending:
            self._block(self._pending)
        self.reader.rest()
        self._pending, self._before, self._torn = b"", [], False
        return self.reader.told()

    def restart(self) -> List[LogEvent]:
        """The file was rotated or truncated: line 1 again, but the same process with the same communicators."""
        events, self.line, self.reader.counted = self.close(), 1, True
        return events

    def _block(self, text: bytes) -> None:
        """Count the collectives of whole lines; show the reader those that have a word, and all while it waits."""
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
        """The last lines before one of a block."""
        return [*self._before, *lines[max(0, index - BEFORE) : index]][-BEFORE:]


def kernel_events(lines: Sequence[Tuple[float, str]], source: str) -> List[LogEvent]:
    """Events of lines of the kernel's log, each with its time."""
    reader = Reader(source, None, None, "", 0.0)
    raw = [prefixes.seen(said).encode("utf-8", "replace") for _, said in lines]
    masks = matching.masks(set(raw))
    for (at, said), key in zip(lines, raw):
        mask = masks.get(key, 0) & matching.KERNEL
        if mask:
            line = LabelledLine(0, prefixes.seen(said), LogWriter(), at, labelled=False, program="kernel")
            reader.read(line, mask, list)
    return reader.told()
