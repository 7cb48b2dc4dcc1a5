"""Whether a log tells of training steps, and how far they got: read from the last lines that came, not from all.

A counter of one kind of line that grows is a step. A line that comes again and again with other times only is none; a
line of a kind that was never there before shows that something moved once. What was there before the file was followed
tells how far the job was, not that it moves.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Set, Tuple

from collectors.node.logs import counters, times
from collectors.node.logs.counters import BAR, BARE, STEP, Counted
from collectors.samples.logs import StepCount

SEEN = 32 << 10
"""Bytes of the end of what came in one look that are read for steps."""
ALIKE, LINES = 4, 128
"""Lines of them that are read, the last ones: so many of one kind, and so many in all."""
_KIND, _VARY = 400, b"0123456789abcdef.,+- "
"""Bytes of a line by which its kind is told, and what lines of one kind differ by."""
KINDS, NEW = 64, 256
"""Counters that are followed in one file, and kinds of lines that are remembered: a log with more says something else
each time, and none of it is news."""
RISES = 8
"""Times of rises that are remembered for the rhythm."""
EVEN, UNEVEN = 3, 0.2
"""Steps that prove a pace, the last ones, and the part of the longest of them by which they may differ."""


class _Counter:
    """One counter: the numbers in one kind of line."""

    __slots__ = ("at", "climbs", "high", "last", "name", "order", "pace", "rises", "times")

    def __init__(self, seen: Counted, at: Optional[float], stamp: Optional[float]) -> None:
        self.name, self.order = seen.name, seen.kind
        self.last = self.high = (seen.epoch, seen.value)
        self.at = at
        """When its last number was written."""
        self.rises = 0
        """Rises so far, the backlog's too; -1 for one that cannot be a count."""
        self.climbs = 2
        """Rises without a fall since it last began anew: two make it a count again."""
        self.times = [] if stamp is None else [(stamp, seen.value)]
        """Times of the last rises, and of the first line, as these print them, and the numbers that they rose to."""
        self.pace: Optional[float] = None
        """Seconds that a step takes, as the last line of a bar says."""

    def take(self, seen: Counted, at: Optional[float], stamp: Optional[float]) -> bool:
        """Take the next number; True when it went on."""
        before, self.last = self.last, (seen.epoch, seen.value)
        if self.last < before:
            if self.order == BARE:
                self.rises = -1  # numbers of ranks or devices go up and down
            elif self.last <= (self.high[0], self.high[1] / 2):
                self.climbs, self.high = 0, self.last
        if self.rises < 0 or self.last <= before or self.last <= self.high:
            return False
        self.high, self.at = self.last, at
        self.climbs += 1
        if self.climbs < 2:
            return False
        self.rises += 1
        if stamp is not None:
            self.times = [*self.times, (stamp, seen.value)][-RISES:]
        return True

    def rhythm(self) -> Tuple[Optional[float], Optional[float], Optional[float]]:
        """Seconds between two rises, of one step at the longest, and of the last ones where they took the same.

        Where lines print no times, what a bar says of a step.
        """
        pairs = list(zip(self.times, self.times[1:]))
        spans = sorted(after - before for (before, _), (after, _) in pairs)
        each = [(after - at) / (to - value) for (at, value), (after, to) in pairs if to > value and after >= at]
        last = each[-EVEN:]
        even = len(last) == EVEN and max(last) - min(last) <= UNEVEN * max(last)
        every = spans[len(spans) // 2] if len(spans) > 1 and spans[0] >= 0.0 else self.pace
        return every, max(each) if each else self.pace, max(last) if even else None


class LogSteps:
    """The step counters of one log file."""

    def __init__(self) -> None:
        self._counters: Dict[str, _Counter] = {}
        self._kinds: Set[str] = set()
        self._pending = b""
        self.grown = 0
        """Times that a counter went on since the file is followed."""
        self.fresh = 0
        """Kinds of lines that came for the first time since then."""

    def take(self, data: bytes, now: float, at: Optional[float], *, live: bool) -> None:
        """Take what came since the last look, or its end. ``at`` is when it was written, as far as one knows.

        ``live`` is False for what was there before the file was followed.
        """
        whole = self._pending + data
        # A bar is drawn over by the next one: its end comes after it, or never.
        lines = whole[-SEEN:].replace(b"\r", b"\n").split(b"\n")
        if len(whole) > SEEN:
            del lines[0]
        self._pending = lines[-1][-4 * counters.LONGEST :] if lines else b""
        if self._pending[-1:].isdigit():
            lines[-1] = b""  # its number may go on
        telling = _telling(lines)
        for index in telling:
            written = at if live or index == telling[-1] else None
            self._line(lines[index], now, written, live, index < len(lines) - 1)

    def _line(self, line: bytes, now: float, at: Optional[float], live: bool, ended: bool) -> None:
        text = counters.plain(line)
        seen = counters.counted(text)
        if seen is None:
            if ended:
                self._kind(counters.words(text), text, live)
            return
        known = self._counters.get(seen.template)
        if known is not None and known.last == (seen.epoch, seen.value):
            return
        stamp = times.find(text, now)
        when = at if live or stamp is None else stamp
        if known is None:
            if len(self._counters) == KINDS:
                return
            known = self._counters[seen.template] = _Counter(seen, when, stamp)
            self._kind(seen.template, text, live)
        elif known.take(seen, when, stamp) and live:
            self.grown += 1
        known.pace = counters.pace(text) if seen.kind == BAR else None

    def _kind(self, words: str, text: str, live: bool) -> None:
        """Remember a kind of line; a new one is news, unless it says that something is wrong or waits."""
        if words not in self._kinds and len(self._kinds) < NEW:
            self._kinds.add(words)
            self.fresh += live and not counters.is_beat(text) and not counters.is_trouble(text)

    def told(self, path: str, pid: Optional[int], rank: Optional[int]) -> Optional[StepCount]:
        """How far the log says that the job is; None while it says nothing of the kind."""
        known = [c for c in self._counters.values() if c.rises > 0 or (c.rises == 0 and c.order == STEP)]
        if not known:
            return StepCount(path, pid, rank, "", None, None, self.grown, self.fresh, None) if self.fresh else None
        best = min(known, key=lambda each: (each.order, -(each.at or 0.0), -each.rises))
        return StepCount(path, pid, rank, best.name, best.high[1], best.at, self.grown, self.fresh, *best.rhythm())


def _telling(lines: List[bytes]) -> List[int]:
    """Indices of the lines that are read, ascending. A flood is of few kinds, and each says the same many times."""
    chosen: List[int] = []
    counts: Dict[bytes, int] = {}
    for index in range(len(lines) - 1, -1, -1):
        kind = lines[index][:_KIND].translate(None, _VARY)
        counts[kind] = counts.get(kind, 0) + 1
        if lines[index].strip() and counts[kind] <= ALIKE and len(chosen) < LINES:
            chosen.append(index)
    return chosen[::-1]
