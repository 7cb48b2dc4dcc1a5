"""A recording as a feed: the same session, the same verdict, at any speed; and one moment of the past as a session."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from itertools import groupby
from math import inf
from pathlib import Path
from typing import NamedTuple, cast

from collectors.fleet.sink import LinkChange
from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.logs import LogEvent, LogLines
from collectors.samples.stacks import StackDump
from hangtop.session.entries import OTHERS, BadLine, Entry
from hangtop.session.feed import Feed
from hangtop.session.options import SessionOptions
from hangtop.session.recording import Recording
from hangtop.session.session import Session
from hangtop.session.state import Changes, Kept

STEP = 0.05
"""Seconds between two deliveries at speed 1."""
LOOK = 1.0
"""Recorded seconds between two looks at progress while seeking: those of a live session, …"""
SHORT, CLOSER = 60.0, 0.25
"""… or so many in a recording that is no longer than this: one of ``hangtop triage``, which looks oftener."""
LOOKS = 600
"""Looks at a time for which nothing is recorded, at the most: a damaged recording may claim any number of years."""
JUDGED = 10.0
"""Recorded seconds between two verdicts while seeking."""
KEPT = (LogLines, LogEvent, StackDump, RasReport)
"""What the session that runs keeps itself for as long as its past, or longer: a moment takes it from there."""
BEFORE = 60.0
"""Seconds played before a moment at least, where there are so many: charts and rules look back as far."""


class RecordedFeed(Feed):
    """What every feed from a recording has in common."""

    unreached = "this is a recording"

    def __init__(self, at: float) -> None:
        self.at = at
        """The moment that is shown."""

    def now(self) -> float:
        """The moment that is shown."""
        return self.at

    def deliver(self, session: Session, entries: Iterable[Entry], until: float) -> None:
        """Deliver entries, each as of its time and what came together together, and go on to a later moment."""
        for (at, node, other), told in groupby(
            entries, lambda entry: (entry.at, entry.node, isinstance(entry.payload, OTHERS))
        ):
            self.at = at  # of what a snapshot repeats this is long before
            payloads = [entry.payload for entry in told]
            if not other:
                session.samples(node, cast("list[NamedTuple]", payloads))
                continue
            for payload in payloads:
                _deliver(session, node, payload)
        self.at = until


def _deliver(session: Session, node: str, payload: object) -> None:
    match payload:
        case LinkChange():
            session.link(payload)
        case BadLine(text, why):
            session.bad_line(node, text, why)
        case StackDump():
            session.stacks(node, [payload])
        case RecorderDump() | RasReport():
            session.take_report(payload)


class ReplayFeed(RecordedFeed):
    """Delivers a recording at ``speed`` times its own pace."""

    def __init__(self, recording: Recording, speed: float = 1.0) -> None:
        super().__init__(recording.first)
        self.recording = recording
        self.speed = speed
        self.paused = False
        self._step = CLOSER if recording.last - recording.first <= SHORT else LOOK
        self._judge_at = self.at
        """When the next verdict is due while seeking."""
        self._session: Session | None = None
        self._entries: Iterator[Entry] = iter(())
        self._next: Entry | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def ended(self) -> bool:
        """True when everything has been delivered."""
        return self._session is not None and self._next is None

    def open(self, session: Session) -> None:
        """Be ready to deliver from the start, without a pace of its own: :meth:`steps` moves it."""
        self._session = session
        self._entries = self.recording.entries()
        self._next = next(self._entries, None)

    async def start(self, session: Session) -> None:
        """Begin to play, from where :func:`run_to` has brought it."""
        if self._session is None:
            self.open(session)
        self._task = asyncio.create_task(self._play(), name="hangtop replay")

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _play(self) -> None:
        last = time.monotonic()
        while not self.ended:
            await asyncio.sleep(STEP)
            now = time.monotonic()
            if not self.paused:
                await self.seek(self.at + (now - last) * self.speed)
            last = now

    def _due(self, at: float) -> Iterator[Entry]:
        while self._next is not None and self._next.at <= at:
            yield self._next
            self._next = next(self._entries, None)

    def steps(self, until: float) -> Iterator[None]:
        """Play on to a time as of its own time, in steps as long as there are between a live session's looks."""
        session, until = self._session, min(until, self.recording.last)
        while session is not None and self.at < until:
            silence = min(until if self._next is None else self._next.at, until) - self.at
            at = min(self.at + max(self._step, silence / LOOKS), until)
            self.deliver(session, self._due(at), at)
            yield

    async def seek(self, at: float) -> None:
        """Go on to a later time at once; the session looks at progress as often as a live one, and judges now and then.

        Before the session has begun there is nowhere to go.
        """
        for _ in self.steps(at):
            if self._session is None or self.at >= min(at, self.recording.last):
                break
            self._session.tick()
            await asyncio.sleep(0)
            if self.at >= self._judge_at:
                await self._session.judge()
                self._judge_at = self.at + JUDGED


def replay_session(path: Path, *, speed: float = 1.0) -> tuple[Session, ReplayFeed]:
    """A session over a recording. Raises :class:`~hangtop.session.entries.RecordingError`."""
    recording = Recording(path)
    about = recording.about
    feed = ReplayFeed(recording, speed)
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
    return session, feed


def run_to(session: Session, feed: ReplayFeed, at: float = inf) -> None:
    """Bring a session to one moment of its recording, or to its end; it looks at progress as often as a live one."""
    feed.open(session)
    for _ in feed.steps(at):
        session.tick()


class SeekedSession(Session):
    """A session as it was: every panel shows it as it shows the present, and nobody can be asked in it."""

    def __init__(self, options: SessionOptions, past: Recording, at: float) -> None:
        """Play the last snapshot before a moment, and what came in between: not on the event loop."""
        feed = RecordedFeed(past.first)
        super().__init__(options, feed=feed)
        wanted = (entry for entry in past.entries(at, since=at - BEFORE) if not isinstance(entry.payload, KEPT))
        feed.deliver(self, wanted, at)

    def show(self, head: Session) -> None:
        """Take from the session that runs what it keeps itself, as far as it was known at this moment."""
        at, now, here = self.now(), head.state, self.state
        here.started = now.started
        here.changes = Changes()
        for _, change in now.changes:
            if change.at <= at:
                here.changes.append(change)
        here.stacks.clear()
        here.stacks.extend((node, dump) for node, dump in now.stacks if dump.at <= at)
        here.ras.clear()
        here.ras.extend(look for look in now.ras if look.at <= at)
        here.log_lines, here.events = Kept(), Kept()
        for node, lines in now.log_lines:
            if lines.at <= at:
                here.log_lines.add(node, lines)
        for node, event in now.events:
            if event.at is None or event.at <= at:
                here.events.add(node, event)
        self.verdict = head.history.verdict_at(at)
        self.history = head.history
        self.probed = [report for report in head.probed if report.at <= at]
