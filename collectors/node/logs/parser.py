"""The incremental log parser: bytes in, in chunks of any size, typed events out; the same for every way of chunking.

Whole blocks of lines are searched for the words of all rules (:mod:`matching`); only lines that have one are looked at,
and lines inside a record that is still open (:mod:`reader`). COLL lines never become events: :mod:`collective_counts`
sums them up.
"""

from __future__ import annotations

from functools import partial
from typing import Dict, List, Optional, Sequence, Tuple

from collectors.node.logs import matching, prefixes
from collectors.node.logs.collective_counts import COUNT, Block, CommunicatorProgress, without_varying
from collectors.node.logs.prefixes import LabelledLine, LogWriter
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
    """

    def __init__(
        self, source: str, rank: Optional[int] = None, pid: Optional[int] = None, host: str = "", now: float = 0.0
    ) -> None:
        self.source = source
        self.line = 1
        """Number of the next line."""
        self.coll = CommunicatorProgress(source, rank, now)
        self.reader = Reader(source, rank, pid, host, now)
        self._now = now
        self._prefilter = matching.Prefilter()
        self._pending = b""
        self._cutting = False
        self._before = b""

    def own(self, rank: Optional[int], pid: Optional[int]) -> None:
        """From now on lines without a label are those of this process; None for nobody in particular."""
        self.coll.settle()
        self.reader.rank = self.coll.rank = rank
        self.reader.pid = pid

    def feed(self, chunk: bytes) -> List[LogEvent]:
        """Take the next bytes; events of the records that ended in them."""
        for start in range(0, len(chunk), PIECE):
            self._take(chunk[start : start + PIECE])
        return self.reader.told()

    def rest(self, now: float, longest: float) -> List[LogEvent]:
        """All was read by ``now``: events of records of which nothing more came for ``longest`` seconds."""
        self.reader.rest(now, longest)
        return self.reader.told()

    def gap(self) -> List[LogEvent]:
        """What follows is not what came next: bytes were left out, and nobody knows how many lines."""
        self._pending, self._before, self._cutting = b"", b"", True
        self.coll.settle()
        self.coll.whole = False
        self.reader.end()
        self.reader.counted = False
        return self.reader.told()

    def close(self) -> List[LogEvent]:
        """The log is over: what was left, a last line without an end too."""
        if self._pending:
            pending, self._pending = self._pending, b""
            self._block(pending if pending.endswith(b"\r") else pending + b"\n")
        self.reader.end()
        return self.reader.told()

    def progress(self) -> List[CommProgress]:
        """Last collective of every communicator that the log tells of."""
        return self.coll.known()

    def _take(self, piece: bytes) -> None:
        """Cut into whole lines. A carriage return alone ends a line, too (progress bars), but is not counted as one."""
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
        """Count the collectives of whole lines; show the reader those that have a word, and all while it waits."""
        text = (block.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in block else block)[:-1]
        bare = without_varying(text) if COUNT in text else text.translate(None, matching.DIGITS)
        kinds = bare.split(b"\n")
        last = dict(zip(kinds, range(len(kinds))))
        masks = self._prefilter.masks(last)
        if masks or self.reader.open:
            lines = text.split(b"\n")
            if len(kinds) != len(lines):  # a torn COLL line swallowed the next
                kinds, last = lines, dict(zip(lines, range(len(lines))))
                masks = self._prefilter.masks(last)
            self._take_lines(Block(lines, kinds, last, _numbers(block, self.line, len(lines))), masks)
        self.line += block.count(b"\n") if b"\r" in block else len(kinds)
        self._before = (self._before + text[-BEFORE:] + b"\n")[-BEFORE:]

    def _take_lines(self, block: Block, masks: Dict[bytes, int]) -> None:
        launches = {kind for kind, mask in masks.items() if mask & matching.LAUNCHES and b"NCCL INFO " in kind}
        inits = [kind for kind, mask in masks.items() if mask & matching.INITIALISES]
        if launches or inits:
            self.coll.take(block, launches, inits)
        if len(launches) == len(masks) and not self.reader.open:
            return
        for index, kind in enumerate(block.kinds):
            mask = masks.get(kind, 0)
            if not (mask or self.reader.open) or kind in launches:
                continue
            raw = block.lines[index]
            found = list(prefixes.records(raw, block.numbers[index], self._now))
            whole = len(found) == 1 and len(raw) <= prefixes.LONGEST
            for line in found:
                known = mask if whole else matching.mask_of(line.text)
                self.reader.read(line, known, partial(self._in_front, block.lines, index))

    def _in_front(self, lines: List[bytes], index: int) -> bytes:
        """The last bytes before a line."""
        start, size = index, 0
        while start and size < BEFORE:
            start -= 1
            size += len(lines[start]) + 1
        return (self._before + b"".join(line + b"\n" for line in lines[start:index]))[-BEFORE:]


def _numbers(block: bytes, first: int, count: int) -> Sequence[int]:
    """Numbers of the lines of a block; what follows a carriage return is of the same line."""
    if b"\r" not in block:
        return range(first, first + count)
    lines = block.replace(b"\r\n", b"\n").split(b"\n")
    return [number for number, line in enumerate(lines, first) for _ in line.split(b"\r")]


def kernel_events(lines: Sequence[Tuple[float, str]], source: str) -> List[LogEvent]:
    """Events of lines of the kernel's log, each with its time."""
    reader = Reader(source, None, None, "", 0.0)
    raw = [said[:KERNEL_LINE].encode("utf-8", "replace") for _, said in lines]
    masks = matching.Prefilter().masks(set(raw))
    for (at, said), key in zip(lines, raw):
        mask = masks.get(key, 0) & matching.KERNEL
        if mask:
            line = LabelledLine(0, said[:KERNEL_LINE], LogWriter(), at, labelled=False, program="kernel")
            reader.read(line, mask, bytes)
    return reader.told()
