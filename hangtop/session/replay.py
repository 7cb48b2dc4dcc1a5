"""A recording as a session with the same verdicts as the live one; and one moment of a recording as a session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import groupby
from math import inf
from pathlib import Path
from typing import NamedTuple, cast

from collectors.fleet.decode import BadLine
from collectors.fleet.sink import LinkChange
from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.logs import LogEvent, LogLines
from collectors.samples.stacks import StackDump
from hangtop.session.options import SessionOptions
from hangtop.session.recording import OTHERS, Entry, Recording
from hangtop.session.session import Session

LOOK = 1.0
"""Recorded seconds between two updates of the progress clock: as in a live session, …"""
SHORT, CLOSER = 60.0, 0.25
"""… or ``CLOSER`` in a recording of at most ``SHORT`` seconds, which ``hangtop triage`` made: it looks more often."""
LOOKS = 600
"""Most updates in a gap without entries: a damaged recording may claim a gap of years."""
JUDGED = 10.0
"""Recorded seconds between two verdicts."""
KEPT = (LogLines, LogEvent, StackDump, RasReport)
"""Kinds that the running session keeps at least as long as its past: a past moment takes them from there."""
BEFORE = 60.0
"""Least seconds played before a moment, if recorded: charts and rules look back as far."""


class RecordedSession(Session):
    """A session whose present is a moment of a recording, ``at``."""

    unreached = "this is a recording"

    def __init__(self, options: SessionOptions, at: float) -> None:
        self.at = at
        super().__init__(options, clock=lambda: self.at)

    def deliver(self, entries: Iterable[Entry], until: float) -> None:
        """Deliver entries, each as of its time; entries that came together, together. Then advance to ``until``."""
        for (at, node, other), together in groupby(
            entries, lambda entry: (entry.at, entry.node, isinstance(entry.payload, OTHERS))
        ):
            self.at = at  # for entries of a snapshot, long before the moment
            payloads = [entry.payload for entry in together]
            if not other:
                self.samples(node, cast("list[NamedTuple]", payloads))
                continue
            for payload in payloads:
                match payload:
                    case LinkChange():
                        self.link(payload)
                    case BadLine():
                        self.bad_line(node, *payload)
                    case StackDump():
                        self.stacks(node, [payload])
                    case RecorderDump() | RasReport():
                        self.take_report(payload)
        self.at = until


class ReplaySession(RecordedSession):
    """Plays a recording from its beginning, as fast as it can be judged, so a verdict knows what a live one knew."""

    until: float

    def __init__(self, path: Path, seconds: float = inf) -> None:
        """``seconds``: only the first of them are played. Raises :class:`~hangtop.session.recording.RecordingError`."""
        self.recording = recording = Recording(path)
        about = recording.about
        options = SessionOptions(
            targets=tuple(about.targets), interval=about.interval, patience=about.patience, read_only=True,
            label=f"REPLAY {path.name}",
        )  # fmt: skip
        super().__init__(options, recording.first)
        self.recordings.played = recording
        self.until = min(recording.first + seconds, recording.last)

    async def watch(self) -> None:
        """Play, with a verdict every :data:`JUDGED` recorded seconds."""
        for judge in self.steps():
            await asyncio.sleep(0)
            if judge:
                await self.watcher.judge()

    def steps(self) -> Iterator[bool]:
        """Play in the recording's own time, with updates of the progress clock as often as in a live session.

        Each step yields whether a verdict is due: every :data:`JUDGED` recorded seconds, and at the end.
        """
        recording, judge_at = self.recording, self.at
        often = CLOSER if recording.last - recording.first <= SHORT else LOOK
        entries = recording.entries(self.until)
        entry = next(entries, None)
        while self.at < self.until:
            silence = (self.until if entry is None else entry.at) - self.at
            at = min(self.at + max(often, silence / LOOKS), self.until)
            due = []
            while entry is not None and entry.at <= at:
                due.append(entry)
                entry = next(entries, None)
            self.deliver(due, at)
            self.tick()
            judge = self.at >= min(judge_at, self.until)
            judge_at = self.at + JUDGED if judge else judge_at
            yield judge


def played(path: Path, seconds: float = inf, *, judged: bool = False) -> ReplaySession:
    """A session that has played a recording, or its first seconds; ``judged`` makes verdicts on the way, as if live.

    Raises :class:`~hangtop.session.recording.RecordingError`.
    """
    session = ReplaySession(path, seconds)
    for due in session.steps():
        if due and judged:
            session.diagnose()
    return session


class SeekedSession(RecordedSession):
    """A session at a past moment: all panels show it like the present, but nodes cannot be asked."""

    def __init__(self, options: SessionOptions, past: Recording, at: float) -> None:
        """Play the last snapshot before a moment, and all entries since: too slow for the event loop."""
        super().__init__(options, past.first)
        wanted = (entry for entry in past.entries(at, since=at - BEFORE) if not isinstance(entry.payload, KEPT))
        self.deliver(wanted, at)

    def show(self, head: Session) -> None:
        """Copy what the running session keeps (:data:`KEPT`, verdicts, reports), as known at this moment."""
        at, now, here = self.now(), head.state, self.state
        here.started = now.started
        here.changes = now.changes.only(lambda change: change.at <= at)
        here.log_lines = now.log_lines.only(lambda lines: lines.at <= at)
        here.events = now.events.only(lambda event: event.at is None or event.at <= at)
        here.stacks.extend((node, dump) for node, dump in now.stacks if dump.at <= at)
        here.ras.extend(sample for sample in now.ras if sample.at <= at)
        self.verdict = head.history.verdict_at(at)
        self.history = head.history
        self.probed = [report for report in head.probed if report.at <= at]
