"""Times of nodes on this machine's clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from collectors.fleet import bounds
from collectors.samples.logs import LogEvent

WINDOW = 60
"""Answers that are compared: older ones are forgotten, so that drift and a corrected clock are followed."""
SAME = 0.05
"""Seconds: a clock this near is taken as ours, which spares every sample a shift."""


class ClockOffset:
    """Minimum-delay filter.

    An answer stamped ``clock`` there that arrives at ``arrived`` here shows ``clock - arrived``: the offset less the
    delay of its way. The largest of the last ones is that with the least delay, and nearest to the truth. Answers come
    in the order in which they were made: one stamped earlier than the one before shows that the clock was set back.
    """

    def __init__(self) -> None:
        self._seen: deque[float] = deque(maxlen=WINDOW)
        self._last = float("-inf")

    def learn(self, clock: float, arrived: float) -> float:
        """Take one answer and return the offset: seconds that the node's clock is ahead of ours."""
        if clock < self._last:
            self._seen.clear()
        self._last = clock
        self._seen.append(clock - arrived)
        return max(self._seen)


def shift_of(offset: float | None) -> float:
    """Seconds to take from the node's times to bring them onto our clock."""
    return 0.0 if offset is None or -SAME < offset < SAME else offset


@lru_cache
def times_of(kind: type[NamedTuple]) -> tuple[str, ...]:
    """The fields of a kind of sample that are times of the node's clock."""
    return tuple(field for field in kind._fields if field in bounds.TIMES)


def shifted(sample: NamedTuple, fields: Sequence[str], shift: float) -> NamedTuple:
    """The same sample, the times in these fields so many seconds earlier."""
    # A clock that is wrong by centuries must not make of a time what no calendar knows.
    times = {
        field: max(bounds.FIRST_MOMENT, min(bounds.LAST_MOMENT, value - shift))
        for field in fields
        if (value := getattr(sample, field)) is not None
    }
    if isinstance(sample, LogEvent) and isinstance(after := sample.data.get("after"), float):
        return sample._replace(**times, data={**sample.data, "after": after - shift})
    return sample._replace(**times) if times else sample
