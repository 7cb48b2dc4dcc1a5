"""Lines of all logs, merged by time, and events from logs whose raw lines are not fetched; pure, no drawing.

The session keeps batches; the book turns them into ordered, filtered lines, and drops the oldest.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from itertools import islice

from collectors.samples.logs import LogEvent
from hangtop.session.state import JobState
from tui.logs.line import FIELDS, LogLine, severity_of
from tui.ordering.filter import Filter, parse

KEPT = 20_000
"""Most lines held; beyond that, the oldest quarter is dropped at once."""
SAME = 5.0
"""Most seconds between two events from one line."""
AT_ONCE = 4_000
"""Most lines taken in one tick; the rest of a flood is only counted."""
_CONTAINER = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d) (?:stdout|stderr) [FP] ")
"""Prefix that the kubelet, containerd and podman write before a container's line."""


class LogBook:
    """The lines. Call :meth:`take` once a tick, :meth:`show` after a change of the filter."""

    def __init__(self) -> None:
        self.lines: list[LogLine] = []
        self.shown: list[LogLine] = []
        self.filter = Filter("", ())
        self.lowest = 0
        """Lowest severity shown."""
        self.skipped = 0
        """Number of lines that were dropped or not fetched in a flood."""
        self._test: Callable[[LogLine], bool] | None = None
        self._log_serial = self._event_serial = self._serial = 0
        self._from_events: dict[tuple[str, str, str], tuple[int, float]] = {}
        """Line number and time of lines that came with events, by node, file and text."""

    def again(self) -> LogBook:
        """An empty book with the same filter, for another moment."""
        book = LogBook()
        book.filter, book.lowest, book._test = self.filter, self.lowest, self._test
        return book

    def take(self, state: JobState) -> int:
        """Take new lines; returns how many of them are shown."""
        new = [*self._new_events(state), *self._new_lines(state)]
        self.skipped += max(0, len(new) - AT_ONCE)
        passed = 0
        for line in new[-AT_ONCE:]:
            _insert(self.lines, line)
            if self._passes(line):
                _insert(self.shown, line)
                passed += 1
        if len(self.lines) > KEPT:
            del self.lines[: len(self.lines) - KEPT * 3 // 4]
            del self.shown[: bisect_left(self.shown, self.lines[0])]
            self._from_events = dict(islice(reversed(self._from_events.items()), KEPT))
        return passed

    def _new_lines(self, state: JobState) -> Iterator[LogLine]:
        entries, self._log_serial = state.log_lines.since(self._log_serial), state.log_lines.total
        for node, batch in entries:
            self.skipped += batch.skipped
            for text in map(_printed, batch.lines):
                if (node, batch.path, text) not in self._from_events:
                    yield self._line(batch.at, node, batch.rank, batch.path, 0, text)

    def _new_events(self, state: JobState) -> Iterator[LogLine]:
        events, self._event_serial = state.events.since(self._event_serial), state.events.total
        for node, event in events:
            yield from self._event(node, event, state.started)

    def _event(self, node: str, event: LogEvent, began: float) -> Iterator[LogLine]:
        """Lines of an event, without lines that another event had: a line of a traceback can be an event of its own."""
        at = began if event.at is None else event.at
        for offset, text in enumerate(event.text.splitlines() or [""]):
            number = event.line + offset if event.line else 0
            before = self._from_events.get((node, event.source, text))
            self._from_events[node, event.source, text] = number, at
            if number and before is not None and before[0] == number and abs(at - before[1]) < SAME:
                continue
            line = self._line(at, node, event.rank, event.source, number, text, event.at is None)
            yield line._replace(severity=max(1, line.severity)) if event.kind.startswith("kernel.") else line

    def _line(
        self, at: float, node: str, rank: int | None, source: str, number: int, text: str, before: bool = False
    ) -> LogLine:
        self._serial += 1
        return LogLine(at, self._serial, node, rank, severity_of(text), source, number, text, before)

    # --- filter -------------------------------------------------------------------------------------------

    def _passes(self, line: LogLine) -> bool:
        return line.severity >= self.lowest and (self._test is None or self._test(line))

    def set_filter(self, text: str) -> None:
        """Show only lines that pass the filter.

        Raises :class:`~tui.ordering.filter.FilterError`, without a change.
        """
        wanted = parse(text)
        self._test = wanted.bind(FIELDS, lambda line: line.text) if wanted.terms else None
        self.filter = wanted
        self.show()

    def wants(self, node: str, rank: int | None, path: str) -> bool:
        """True if lines of this file can pass the filter's terms on node, rank and file."""
        probe = LogLine(0.0, 0, node, rank, 0, path, 0, "")
        terms = [term for term in self.filter.terms if term.field in {"node", "rank", "file"}]
        return all(term.test(FIELDS[term.field](probe)) != term.negated for term in terms)

    def show(self) -> None:
        """Apply filter and severity to all lines."""
        self.shown = [line for line in self.lines if self._passes(line)]

    def place(self, line: LogLine) -> int:
        """Index of a line among the shown lines, or its insertion point."""
        return bisect_left(self.shown, line)

    def find(self, source: str, line: int, text: str) -> int | None:
        """Index of the shown line that evidence names: by source and number, else by text; None if not shown."""
        first = text.strip().partition("\n")[0].strip()
        numbered = (entry for entry in self.lines if entry.source == source and line and entry.line == line)
        said = (entry for entry in self.lines if first and first in entry.text)
        found = next(numbered, None) or next(said, None)
        return self.shown.index(found) if found in self.shown else None


def _printed(text: str) -> str:
    """The text without a container runtime's prefix."""
    return _CONTAINER.sub("", text, count=1) if text[:1] == "2" else text


def _insert(lines: list[LogLine], line: LogLine) -> None:
    if not lines or lines[-1] <= line:
        lines.append(line)
    else:
        insort(lines, line)
