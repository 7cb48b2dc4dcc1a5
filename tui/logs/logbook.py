"""Lines of all logs merged by time, with the events of logs that nobody views line by line; pure, no drawing.

The session keeps what came as batches; here it becomes lines, in order, filtered. Bounded: the oldest go first.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Callable
from itertools import groupby, islice
from typing import NamedTuple

from collectors.samples.logs import LogEvent, LogLines
from hangtop.session.state.job_state import JobState
from tui.logs.alike import Fold, Folds
from tui.logs.backlog import LastLinesCame
from tui.logs.container_lines import printed
from tui.looks.format import clock
from tui.ordering.filter import Filter, Value, parse

KEPT = 20_000
"""Lines held; a quarter goes at once when there are more."""
SAME = 5.0
"""Seconds that two events about one line may be apart."""
AT_ONCE = 4_000
"""Lines taken in one tick; what a flood brings beyond is counted, not shown."""

SEVERITIES = ("info", "warning", "error")

_ERROR = re.compile(
    r"\b(?:error|fatal|critical|exception|traceback|abort(?:ed|ing)?|segfault|sigsegv|sigabrt|killed|panic|xid)\b"
    r"|NCCL WARN|out of memory|(?:^|[][:] ?)[EF]\d{4} \d\d:|Error\b",
    re.IGNORECASE,
)
_WARNING = re.compile(
    r"\b(?:warn|warning|timeout|timed out|retry|refused|slow)\b|(?:^|[][:] ?)W\d{4} \d\d:", re.IGNORECASE
)


class LogLine(NamedTuple):
    """One line. ``at`` and ``serial`` order it."""

    at: float
    serial: int
    node: str
    rank: int | None
    severity: int
    """Index into ``SEVERITIES``."""
    source: str
    """Path, ``dmesg``, ``journal`` …"""
    line: int
    """Line number in the source; 0 when unknown."""
    text: str
    before: bool = False
    """Nobody knows when it was written, but it was before ``at``."""

    @property
    def time(self) -> str:
        """When it was written, as it is shown: twelve cells."""
        return f"<{clock(self.at, millis=False)}".ljust(12) if self.before else clock(self.at)


FIELDS: dict[str, Callable[[LogLine], Value]] = {
    "rank": lambda line: line.rank,
    "node": lambda line: line.node,
    "severity": lambda line: SEVERITIES[line.severity],
    "file": lambda line: line.source,
    "text": lambda line: line.text,
}
"""What a filter of log lines can name."""


def severity_of(text: str) -> int:
    """How bad a line is, by its words."""
    if _ERROR.search(text):
        return 2
    return 1 if _WARNING.search(text) else 0


class LogBook:
    """The lines. :meth:`take` once a tick, :meth:`show` when the filter changes."""

    def __init__(self) -> None:
        self.lines: list[LogLine] = []
        self.shown: list[LogLine] = []
        self.filter = Filter("", ())
        self.lowest = 0
        """Lowest severity that is shown."""
        self.skipped = 0
        """Lines that a flood brought and nobody took."""
        self.folds: Folds | None = None
        """Lines that are alike, where they are shown as one."""
        self._test: Callable[[LogLine], bool] | None = None
        self._log_serial = 0
        self._event_serial = 0
        self._serial = 0
        self._event_texts: dict[tuple[str, str], None] = {}
        self._event_lines: dict[tuple[str, str, int, str], float] = {}
        """When lines with a number were told of by events: several may tell of one, alone and in a traceback."""
        self._seen = LastLinesCame()

    def again(self) -> LogBook:
        """An empty book with the same filter: for another moment, of which other lines are known."""
        book = LogBook()
        book.filter, book.lowest, book._test = self.filter, self.lowest, self._test
        book.folds = None if self.folds is None else Folds()
        return book

    def take(self, state: JobState) -> int:
        """Take what is new; returns how many of the new lines are shown."""
        new = self._new_events(state) + self._new_lines(state)
        if len(new) > AT_ONCE:
            self.skipped += len(new) - AT_ONCE
            new = new[-AT_ONCE:]
        test = self._test
        passed = 0
        for line in new:
            _insert(self.lines, line)
            if line.severity >= self.lowest and (test is None or test(line)):
                if self.folds is not None and self.folds.takes(line):
                    continue
                _insert(self.shown, line)
                passed += 1
        if len(self.lines) > KEPT:
            del self.lines[: len(self.lines) - KEPT * 3 // 4]
            if self.folds is None:
                del self.shown[: bisect_left(self.shown, self.lines[0])]
            else:
                self.show()
        return passed

    def _new_lines(self, state: JobState) -> list[LogLine]:
        count = state.log_serial - self._log_serial
        self._log_serial = state.log_serial
        entries = list(islice(reversed(state.log_lines), min(count, len(state.log_lines))))
        lines: list[LogLine] = []
        for (node, path, backlog), group in groupby(
            reversed(entries), lambda one: (one[0], one[1].path, one[1].backlog)
        ):
            batches = [batch for _, batch in group]
            texts = [text for batch in batches for text in batch.lines]
            known = self._seen.known(node, path, texts) if backlog else 0
            self._seen.came(node, path, texts)
            for batch in batches:
                self.skipped += batch.skipped
                lines.extend(self._lines_of(node, batch, known))
                known = max(0, known - len(batch.lines))
        return lines

    def _lines_of(self, node: str, batch: LogLines, known: int) -> list[LogLine]:
        return [
            self._line(batch.at, node, batch.rank, batch.path, 0, text)._replace(before=batch.before)
            for text in map(printed, batch.lines[known:])
            if (batch.path, text) not in self._event_texts
        ]

    def _new_events(self, state: JobState) -> list[LogLine]:
        count = state.event_serial - self._event_serial
        self._event_serial = state.event_serial
        entries = list(islice(reversed(state.events), min(count, len(state.events))))
        return [line for node, event in reversed(entries) for line in self._event(node, event, state)]

    def _event(self, node: str, event: LogEvent, state: JobState) -> list[LogLine]:
        """An event's first line also comes as a raw line when its file is on view: then the event is shown alone."""
        texts = event.text.splitlines() or [""]
        for text in texts:
            self._event_texts[event.source, text] = None
        while len(self._event_texts) > KEPT:
            self._event_texts.pop(next(iter(self._event_texts)))
        at = event.at if event.at is not None else state.started
        number = event.line
        lines = [
            self._line(at, node, event.rank, event.source, number + offset if number else 0, text)._replace(
                before=event.at is None
            )
            for offset, text in enumerate(texts)
            if not (number and self._told((node, event.source, number + offset, text), at))
        ]
        if event.kind.startswith("kernel."):
            lines = [line._replace(severity=max(1, line.severity)) for line in lines]
        return lines

    def _told(self, key: tuple[str, str, int, str], at: float) -> bool:
        """Whether another event has told of this line; one of the same number in a file that began anew is another."""
        before = self._event_lines.get(key)
        if before is not None and abs(at - before) < SAME:
            return True
        self._event_lines[key] = at
        while len(self._event_lines) > KEPT:
            self._event_lines.pop(next(iter(self._event_lines)))
        return False

    def _line(self, at: float, node: str, rank: int | None, source: str, number: int, text: str) -> LogLine:
        self._serial += 1
        return LogLine(at, self._serial, node, rank, severity_of(text), source, number, text)

    # --- what is shown -------------------------------------------------------------------------------------------

    def set_filter(self, text: str) -> None:
        """Show what the filter lets through.

        Raises :class:`~tui.ordering.filter.FilterError`, and changes nothing then.
        """
        wanted = parse(text)
        self._test = wanted.bind(FIELDS, lambda line: line.text) if wanted.terms else None
        self.filter = wanted
        self.show()

    def wants(self, node: str, rank: int | None, path: str) -> bool:
        """True when the filter's terms about node, rank and file let lines of this file through."""
        probe = LogLine(0.0, 0, node, rank, 0, path, 0, "")
        terms = [term for term in self.filter.terms if term.field in {"node", "rank", "file"}]
        return all(term.test(FIELDS[term.field](probe)) != term.negated for term in terms)

    def show(self) -> None:
        """Work out anew what is shown."""
        test, lowest = self._test, self.lowest
        self.shown = [line for line in self.lines if line.severity >= lowest and (test is None or test(line))]
        if self.folds is not None:
            folds = self.folds = Folds()
            self.shown = [line for line in self.shown if not folds.takes(line)]

    def fold(self, on: bool) -> None:
        """Show lines that are alike as one, or each alone."""
        if on != (self.folds is not None):
            self.folds = Folds() if on else None
            self.show()

    def together(self, line: LogLine) -> Fold:
        """Who wrote a line, and those that are shown as one with it."""
        return (None if self.folds is None else self.folds.of(line)) or Fold(line)

    def place(self, line: LogLine) -> int:
        """Where a line is among those shown, or would be."""
        return bisect_left(self.shown, line)

    def at(self, moment: float) -> int:
        """Place of the first shown line at or after a moment."""
        return bisect_left(self.shown, moment, key=lambda line: line.at)

    def find(self, source: str, line: int, text: str) -> int | None:
        """Place of the shown line that a proof names: by source and number, else by its words."""
        for place, shown in enumerate(self.shown):
            if shown.source == source and line and shown.line == line:
                return place
        first = text.splitlines()[0].strip() if text.strip() else ""
        found = next((place for place, shown in enumerate(self.shown) if first and first in shown.text), None)
        return found if found is not None or self.folds is None else self._find_folded(source, line, first)

    def _find_folded(self, source: str, line: int, first: str) -> int | None:
        for one in self.lines:
            if (one.source == source and line and one.line == line) or (first and first in one.text):
                serial = self.together(one).serial
                return next((place for place, shown in enumerate(self.shown) if shown.serial == serial), None)
        return None


def _insert(lines: list[LogLine], line: LogLine) -> None:
    if not lines or lines[-1] <= line:
        lines.append(line)
    else:
        insort(lines, line)


def next_alarm(lines: list[LogLine], place: int, step: int) -> int | None:
    """Place of the next (or previous) warning or error from ``place`` on."""
    order = range(place + 1, len(lines)) if step > 0 else range(place - 1, -1, -1)
    return next((at for at in order if lines[at].severity), None)
