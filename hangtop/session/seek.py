"""One moment of the past as a session: every panel shows it as it shows the present, and nobody can be asked in it."""

from __future__ import annotations

from collections.abc import Iterable

from collectors.samples.logs import LogEvent, LogLines
from collectors.samples.stacks import StackDump
from hangtop.session.entries import End, Entry, StackLook
from hangtop.session.options import SessionOptions
from hangtop.session.recording import Recording
from hangtop.session.replay import RecordedFeed, deliver
from hangtop.session.session import Session
from hangtop.session.state.changes import Changes

KEPT = (LogLines, LogEvent, StackDump, StackLook, End)
"""What the session that runs keeps itself for as long as its past, or longer: it is taken from there."""
BEFORE = 60.0
"""Seconds played before a moment at least, where there are so many: charts and rules look back as far."""


class SeekedSession(Session):
    """A session as it was; :meth:`show` completes it from the session that runs."""

    def __init__(self, options: SessionOptions, past: Recording, at: float) -> None:
        """Play the last snapshot before a moment, and what came in between: not on the event loop."""
        begin = past.snapshot(at - BEFORE)
        first = min((entry.at for entry in begin), default=past.first)
        self._moment = RecordedFeed(first)
        super().__init__(options, feed=self._moment)
        self.play(begin, first)
        known = {entry.node: entry.at for entry in begin}
        later = past.entries(first, at) if begin else past.entries(until=at)
        # a snapshot takes a moment: what came from a node meanwhile may be in it
        self.play((entry for entry in later if entry.at > known.get(entry.node, float("-inf"))), at)

    @property
    def at(self) -> float:
        """The moment."""
        return self._moment.at

    def play(self, entries: Iterable[Entry], until: float) -> None:
        """Go on to a later moment, by what was taken in meanwhile."""
        deliver(self, (entry for entry in entries if not isinstance(entry.payload, KEPT)), self._moment.reach)
        self._moment.reach(until)

    def show(self, head: Session) -> None:
        """Take from the session that runs what it keeps itself, as far as it was known at this moment."""
        at, now, here = self.at, head.state, self.state
        here.started = now.started
        here.changes = Changes(change for change in now.changes if change.at <= at)
        here.stacks.clear()
        here.stacks.extend((node, dump) for node, dump in now.stacks if dump.at <= at)
        here.ras.clear()
        here.ras.extend(look for look in now.ras if look.at <= at)
        here.log_lines.clear()
        here.log_lines.extend((node, lines) for node, lines in now.log_lines if lines.at <= at)
        here.log_serial = len(here.log_lines)
        here.events.clear()
        here.events.extend((node, event) for node, event in now.events if event.at is None or event.at <= at)
        here.event_serial = len(here.events)
        self.verdict = head.history.verdict_at(at)
        self.history, self.traces = head.history, head.traces
        self.probed = [report for report in head.probed if report.at <= at]
