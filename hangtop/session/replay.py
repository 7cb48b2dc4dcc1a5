"""A recording as a feed, which gives the same session and verdict; and one moment of a recording as a session."""

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
from hangtop.session.session import Feed, Session

LOOK = 1.0
"""Recorded seconds between two samples of progress: as in a live session, …"""
SHORT, CLOSER = 60.0, 0.25
"""… or ``CLOSER`` in a recording of at most ``SHORT`` seconds, which ``hangtop triage`` made: it looks more often."""
LOOKS = 600
"""Most samples in a gap without entries: a damaged recording may claim a gap of years."""
JUDGED = 10.0
"""Recorded seconds between two verdicts."""
KEPT = (LogLines, LogEvent, StackDump, RasReport)
"""Kinds that the running session keeps at least as long as its past: a past moment takes them from there."""
BEFORE = 60.0
"""Least seconds played before a moment, if recorded: charts and rules look back as far."""


class RecordedFeed(Feed):
    """Delivers entries of a recording; ``at`` is the moment that is shown."""

    unreached = "this is a recording"

    def __init__(self, at: float) -> None:
        self.at = at

    def now(self) -> float:
        """The moment that is shown."""
        return self.at

    def deliver(self, session: Session, entries: Iterable[Entry], until: float) -> None:
        """Deliver entries, each as of its time; entries that came together, together. Then advance to ``until``."""
        for (at, node, other), told in groupby(
            entries, lambda entry: (entry.at, entry.node, isinstance(entry.payload, OTHERS))
        ):
            self.at = at  # for entries of a snapshot, long before the moment
            payloads = [entry.payload for entry in told]
            if not other:
                session.samples(node, cast("list[NamedTuple]", payloads))
                continue
            for payload in payloads:
                match payload:
                    case LinkChange():
                        session.link(payload)
                    case BadLine():
                        session.bad_line(node, *payload)
                    case StackDump():
                        session.stacks(node, [payload])
                    case RecorderDump() | RasReport():
                        session.take_report(payload)
        self.at = until


class ReplayFeed(RecordedFeed):
    """Plays a recording from its beginning, as fast as it can be judged, so a verdict knows what a live one knew."""

    def __init__(self, recording: Recording, until: float) -> None:
        """``until`` is the moment at which to end, if the recording is not shorter."""
        super().__init__(recording.first)
        self._recording = recording
        self.until = min(until, recording.last)
        self._task: asyncio.Task[None] | None = None

    @property
    def ended(self) -> bool:
        """True once everything was delivered."""
        return self.at >= self.until

    async def start(self, session: Session) -> None:
        """Play in the background, with a verdict every :data:`JUDGED` recorded seconds."""
        self._task = asyncio.create_task(self._play(session), name="hangtop replay")

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _play(self, session: Session) -> None:
        for judge in self.steps(session):
            await asyncio.sleep(0)
            if judge:
                await session.watcher.judge()

    def steps(self, session: Session) -> Iterator[bool]:
        """Play in the recording's own time, with samples of progress as often as in a live session.

        Each step yields whether a verdict is due: every :data:`JUDGED` recorded seconds, and at the end.
        """
        recording, judge_at = self._recording, self.at
        often = CLOSER if recording.last - recording.first <= SHORT else LOOK
        entries = recording.entries(self.until)
        entry = next(entries, None)
        while not self.ended:
            silence = (self.until if entry is None else entry.at) - self.at
            at = min(self.at + max(often, silence / LOOKS), self.until)
            due = []
            while entry is not None and entry.at <= at:
                due.append(entry)
                entry = next(entries, None)
            self.deliver(session, due, at)
            session.tick()
            judge = self.at >= judge_at or self.ended
            judge_at = self.at + JUDGED if judge else judge_at
            yield judge


def replay_session(path: Path, seconds: float = inf) -> Session:
    """A session that plays a recording, or its first seconds, once it is started.

    Raises :class:`~hangtop.session.recording.RecordingError`.
    """
    recording = Recording(path)
    about = recording.about
    feed = ReplayFeed(recording, recording.first + seconds)
    options = SessionOptions(
        targets=tuple(about.targets),
        interval=about.interval,
        patience=about.patience,
        read_only=True,
        label=f"REPLAY {path.name}",
    )
    session = Session(options, feed=feed)
    session.player = feed
    session.recordings.played = recording
    return session


def played(path: Path, seconds: float = inf, *, judged: bool = False) -> Session:
    """A session that has played a recording, or its first seconds; ``judged`` makes verdicts on the way, as if live.

    Raises :class:`~hangtop.session.recording.RecordingError`.
    """
    session = replay_session(path, seconds)
    assert session.player is not None
    for due in session.player.steps(session):
        if due and judged:
            session.diagnose()
    return session


class SeekedSession(Session):
    """A session at a past moment: all panels show it like the present, but nodes cannot be asked."""

    def __init__(self, options: SessionOptions, past: Recording, at: float) -> None:
        """Play the last snapshot before a moment, and all entries since: too slow for the event loop."""
        feed = RecordedFeed(past.first)
        super().__init__(options, feed=feed)
        wanted = (entry for entry in past.entries(at, since=at - BEFORE) if not isinstance(entry.payload, KEPT))
        feed.deliver(self, wanted, at)

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
