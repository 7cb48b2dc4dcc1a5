"""What was sent again in a capture: sequence ranges that had been seen before, flow by flow.

A flow is one direction of one connection. Sequence numbers wrap at 2**32 (RFC 9293, 3.4): they are unrolled relative to
the highest seen. A segment counts as sent again by the bytes of it that had been seen; the capture must be taken where
the original passed (at the sender): behind the loss, a retransmission is the first that is seen, and counts as late.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from collectors.formats.pcap import SYN, Segment

MOST_RANGES = 512
"""Ranges that are kept of a flow: beyond it, the two lowest become one."""
FlowKey = tuple[str, int, str, int]


@dataclass(slots=True)
class Flow:
    """One direction of one connection."""

    key: FlowKey
    """Source address and port, target address and port."""
    segments: int = 0
    """Those with payload."""
    size: int = 0
    """Bytes of payload, what was sent again included."""
    again: int = 0
    """Segments of which some bytes had been seen, and SYNs that were repeated."""
    again_size: int = 0
    late: int = 0
    """Segments that fill a hole: out of order, or sent again after a loss before the place of capture."""
    first: float = 0.0
    last: float = 0.0
    _starts: list[int] = field(default_factory=list)
    _ends: list[int] = field(default_factory=list)
    _highest: int | None = None
    _initial: int | None = None

    @property
    def share(self) -> float:
        """Share of the bytes that were sent again, 0 to 1."""
        return self.again_size / self.size if self.size else 0.0

    def add(self, segment: Segment) -> None:
        """Take the flow's next segment."""
        self.first = self.first or segment.at
        self.last = segment.at
        if segment.flags & SYN:
            self._begin(segment.seq)
            return
        if not segment.length:
            return
        start = self._unrolled(segment.seq)
        end = start + segment.length
        if self._highest is not None and segment.length == 1 and end == self._highest:
            return  # a keep-alive: one byte that was acknowledged already
        self.segments += 1
        self.size += segment.length
        seen = self._insert(start, end)
        if seen:
            self.again += 1
            self.again_size += seen
        elif self._highest is not None and end < self._highest:
            self.late += 1
        self._highest = end if self._highest is None else max(self._highest, end)

    def _begin(self, seq: int) -> None:
        """A SYN: repeated, or the first of another connection between the same ports."""
        if seq == self._initial:
            self.again += 1
            return
        self._initial = seq
        self._starts, self._ends, self._highest = [], [], seq + 1

    def _unrolled(self, seq: int) -> int:
        """The number without its wrapping, next to the highest seen."""
        if self._highest is None:
            return seq
        ahead = (seq - self._highest) & 0xFFFFFFFF
        return self._highest + (ahead - (1 << 32) if ahead >= 1 << 31 else ahead)

    def _insert(self, start: int, end: int) -> int:
        """Add a range to those seen; returns how many of its bytes were there already."""
        low = bisect_left(self._ends, start)
        high = bisect_right(self._starts, end)
        touched = list(zip(self._starts[low:high], self._ends[low:high], strict=True))
        seen = sum(max(0, min(end, its_end) - max(start, its_start)) for its_start, its_end in touched)
        self._starts[low:high] = [min([start, *(one for one, _ in touched)])]
        self._ends[low:high] = [max([end, *(one for _, one in touched)])]
        if len(self._starts) > MOST_RANGES:
            del self._starts[1], self._ends[0]
        return seen


def flows(segments: Iterable[Segment]) -> dict[FlowKey, Flow]:
    """All flows of a capture."""
    found: dict[FlowKey, Flow] = {}
    for segment in segments:
        key = segment.source, segment.source_port, segment.target, segment.target_port
        flow = found.get(key)
        if flow is None:
            flow = found[key] = Flow(key)
        flow.add(segment)
    return found
