"""Events that wait to be sent: bounded, each log in its turn, and what there was no room for counted and said."""

from __future__ import annotations

from collections import deque
from typing import Deque, Dict, Iterable, Iterator, Tuple

from collectors.samples.logs import LogEvent

MOST = 4 << 20
"""Bytes of events that wait at once; a look sends some 128 KiB of them."""
SAY_EVERY = 10.0
"""Seconds between two words on how many were left out."""

Unsaid = Tuple[LogEvent, int]


class Outbox:
    """Events of many logs.

    When there are too many, the log that has most of them waiting gives up its newest: what it said first tells most,
    and a flood in one log must not hide the one line of another.
    """

    def __init__(self) -> None:
        self._events: Dict[str, Deque[LogEvent]] = {}
        self._sizes: Dict[str, int] = {}
        self._size = 0
        self._unsaid: Dict[str, Unsaid] = {}
        self._said_at = float("-inf")

    def __len__(self) -> int:
        """How many wait."""
        return sum(len(events) for events in self._events.values())

    def add(self, events: Iterable[LogEvent]) -> None:
        """Let these wait, too."""
        for event in events:
            size = _size(event)
            self._events.setdefault(event.source, deque()).append(event)
            self._sizes[event.source] = self._sizes.get(event.source, 0) + size
            self._size += size
            while self._size > MOST:
                self._leave_out()

    def take(self, most: int, now: float) -> Iterator[LogEvent]:
        """The next events, one of each log in turn, until they have ``most`` bytes; then what was left out, if any."""
        size = 0
        while self._events and size < most:
            for source in list(self._events):
                if size >= most:
                    break
                events = self._events.pop(source)  # comes again behind the others
                event = events.popleft()
                size += self._without(event)
                if events:
                    self._events[source] = events
                yield event
        if self._unsaid and not 0 <= now - self._said_at < SAY_EVERY:
            self._said_at = now
            for last, count in self._unsaid.values():
                text = "%d events of this log were left out: it has more of them than can be sent" % count
                yield LogEvent("log.crowded", now, last.rank, "", last.pid, last.source, 0, text, {"events": count})
            self._unsaid = {}

    def _leave_out(self) -> None:
        fullest = max(self._sizes, key=self._sizes.__getitem__)
        events = self._events[fullest]
        event = events.pop()
        self._without(event)
        if not events:
            del self._events[fullest]
        self._unsaid[fullest] = event, self._unsaid.get(fullest, (event, 0))[1] + 1

    def _without(self, event: LogEvent) -> int:
        """Count an event out; its size."""
        size = _size(event)
        self._size -= size
        self._sizes[event.source] -= size
        if not self._sizes[event.source]:
            del self._sizes[event.source]
        return size


def _size(event: LogEvent) -> int:
    """Bytes that it is on its way, about."""
    return 200 + len(event.text) + sum(_length(value) for value in event.data.values())


def _length(value: object) -> int:
    if isinstance(value, str):
        return len(value)
    return sum(_length(each) for each in value) + 8 if isinstance(value, list) else 8
