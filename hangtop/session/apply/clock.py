"""Converts times of nodes to this machine's clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from collectors.fleet import bounds
from collectors.samples.logs import LogEvent

WINDOW = 60
"""Answers that are compared. Older answers are dropped, so that the offset follows drift and a corrected clock."""
SAME = 0.05
"""Seconds of offset below which a clock counts as equal to ours, so that samples need no shift."""


class ClockOffset:
    """Minimum-delay filter.

    An answer stamped ``clock`` on the node that arrives at ``arrived`` here gives ``clock - arrived``: the offset minus
    the network delay. The largest of the last values has the least delay, and is nearest to the true offset. Answers
    arrive in order: an answer stamped earlier than the one before shows that the node's clock was set back.
    """

    def __init__(self) -> None:
        self._seen: deque[float] = deque(maxlen=WINDOW)
        self._last = float("-inf")

    def learn(self, clock: float, arrived: float) -> float:
        """Add one answer; returns the offset: seconds by which the node's clock is ahead of ours."""
        if clock < self._last:
            self._seen.clear()
        self._last = clock
        self._seen.append(clock - arrived)
        return max(self._seen)


def shift_of(offset: float | None) -> float:
    """Seconds to subtract from the node's times to get times of our clock."""
    return 0.0 if offset is None or -SAME < offset < SAME else offset


@lru_cache
def times_of(kind: type[NamedTuple]) -> tuple[str, ...]:
    """The fields of a kind of sample that hold times of the node's clock."""
    return tuple(field for field in kind._fields if field in bounds.TIMES)


def shifted(sample: NamedTuple, fields: Sequence[str], shift: float) -> NamedTuple:
    """The same sample with the times in ``fields`` ``shift`` seconds earlier."""
    # A clock that is wrong by centuries must not produce a time that datetime cannot represent.
    times = {
        field: max(bounds.FIRST_MOMENT, min(bounds.LAST_MOMENT, value - shift))
        for field in fields
        if (value := getattr(sample, field)) is not None
    }
    if isinstance(sample, LogEvent) and isinstance(after := sample.data.get("after"), float):
        return sample._replace(**times, data={**sample.data, "after": after - shift})
    return sample._replace(**times) if times else sample
