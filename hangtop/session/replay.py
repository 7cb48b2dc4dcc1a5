"""A recording as a feed: the same session, the same verdict, at any speed; and one moment of the past as a session."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, cast

from collectors.fleet.sink import LinkChange
from collectors.fleet.transport import Transport, TransportError
from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.control import Settings
from hangtop.diagnosis.finding import Verdict
from hangtop.session.entries import BadLine, Entry, StackLook
from hangtop.session.options import SessionOptions
from hangtop.session.recording import Recording
from hangtop.session.session import Session

STEP = 0.05
"""Seconds between two deliveries at speed 1."""
LOOK = 1.0
"""Recorded seconds between two looks at progress while seeking: those of a live session, …"""
SHORT, CLOSER = 60.0, 0.25
"""… or so many in a recording that is no longer than this: one of ``hangtop triage``, which looks oftener."""
MARKS = frozenset({"started", "ended", "stopped", "gpu", "port", "kernel", "dump", "repair"})
"""Kinds of changes that events tell as marks; what happens to links and verdicts is told by itself."""
LOOKS = 600
"""Looks at a time for which nothing is recorded, at the most: a damaged recording may claim any number of years."""
JUDGED, DUTY = 10.0, 100.0
"""Recorded seconds between two verdicts while seeking, at the least, and so many for each second that one takes."""


class RecordedFeed:
    """What every feed from a recording has in common: nobody can be asked, and nothing can be set."""

    live = True
    connected = False

    def __init__(self, at: float) -> None:
        self.at = at
        """The moment that is shown."""

    def now(self) -> float:
        """The moment that is shown."""
        return self.at

    def reach(self, at: float) -> None:
        """Go on to a later moment."""
        self.at = max(self.at, at)

    async def start(self, session: Session) -> None:
        """Nothing comes by itself."""

    async def close(self) -> None:
        """Nothing to end."""

    def transport(self, node: str) -> Transport:
        """There is none."""
        raise TransportError(f"{node}: this is a recording")

    def python(self, node: str) -> str:
        """There is none."""
        raise TransportError(f"{node}: this is a recording")

    def retry(self, node: str) -> None:
        """Refuse."""
        raise TransportError(f"{node}: this is a recording")

    def settings(self, node: str | None, settings: Settings) -> None:
        """What was recorded is recorded."""


def deliver(session: Session, entries: Iterable[Entry], reach: Callable[[float], None]) -> None:
    """Deliver entries, what came together together; ``reach`` is told the time of each before."""
    for (at, node, sampled), told in groupby(entries, lambda entry: (entry.at, entry.node, entry.is_sample)):
        reach(at)
        payloads = [entry.payload for entry in told]
        if sampled:
            session.samples(node, cast("list[NamedTuple]", payloads))
            continue
        for payload in payloads:
            _deliver(session, node, payload)


def _deliver(session: Session, node: str, payload: object) -> None:
    match payload:
        case LinkChange():
            session.link(payload)
        case BadLine(text, why):
            session.bad_line(node, text, why)
        case StackLook(dump):
            session.stacks(node, [dump])
        case RecorderDump() | RasReport():
            session.take_report(payload)


class ReplayFeed(RecordedFeed):
    """Delivers a recording at ``speed`` times its own pace."""

    def __init__(self, recording: Recording, speed: float = 1.0) -> None:
        super().__init__(recording.span[0])
        self.recording = recording
        self.speed = speed
        self.paused = False
        self._judge_at = self.at
        """When the next verdict is due while seeking."""
        self._session: Session | None = None
        self._entries: Iterator[Entry] = iter(())
        self._next: Entry | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def next_at(self) -> float:
        """When the next thing comes; the end of time when nothing does any more."""
        return float("inf") if self._next is None else self._next.at

    @property
    def ends(self) -> float:
        """Time of the recording's last entry."""
        return self.recording.span[1]

    @property
    def ended(self) -> bool:
        """True when everything has been delivered."""
        return self._session is not None and self._next is None

    def open(self, session: Session) -> None:
        """Be ready to deliver from the start, without a pace of its own: :meth:`play_to` moves it."""
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

    def play_to(self, at: float) -> None:
        """Deliver everything up to this time, as of its own time."""
        assert self._session is not None
        due: list[Entry] = []
        while self._next is not None and self._next.at <= at:
            due.append(self._next)
            self._next = next(self._entries, None)
        deliver(self._session, due, self.reach)
        self.reach(at)

    async def _play(self) -> None:
        last = time.monotonic()
        while not self.ended:
            await asyncio.sleep(STEP)
            now = time.monotonic()
            if not self.paused:
                await self.seek(self.at + (now - last) * self.speed)
            last = now

    async def seek(self, at: float) -> None:
        """Go on to a later time at once: what a live session looks at once a second is looked at as often.

        It is judged now and then, too. Before the session has begun there is nowhere to go.
        """
        if self._session is None:
            return
        at = min(at, self.ends)
        while at - self.at > LOOK:
            self.play_to(self.at + LOOK)
            self._session.tick()
            await asyncio.sleep(0)
            if self.at >= self._judge_at:
                began = time.perf_counter()
                await self._session.judge()
                self._judge_at = self.at + max(JUDGED, DUTY * (time.perf_counter() - began))
        self.play_to(at)


def replay_session(path: Path, *, speed: float = 1.0) -> tuple[Session, ReplayFeed]:
    """A session over a recording. Raises :class:`~hangtop.session.recording.RecordingError`."""
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
    session.recordings.past = recording
    return session, feed


def run_to(session: Session, feed: ReplayFeed, at: float) -> None:
    """Bring a session to one moment of its recording, looking at progress as often as a live one does."""
    feed.open(session)
    first, last = feed.recording.span
    end, step = min(at, last), CLOSER if last - first <= SHORT else LOOK
    while feed.at < end:
        silence = min(feed.next_at, end) - feed.at
        feed.play_to(min(feed.at + max(step, silence / LOOKS), end))
        session.tick()


def events_as_json(session: Session, feed: ReplayFeed) -> Iterator[str]:
    """Verdicts, states of links and what happened (marks of the line of time) as JSON lines, each when it came."""
    told: list[dict[str, object]] = []

    def judged(_: Verdict | None, verdict: Verdict) -> None:
        ranks = verdict.findings[0].ranks if verdict.findings else ()
        told.append({"at": feed.now(), "verdict": verdict.outcome, "summary": verdict.summary, "ranks": ranks})

    session.on_verdict.append(judged)
    links: dict[str, str] = {}
    noted, judge_at = session.state.changes.noted, feed.at
    feed.open(session)
    while feed.at < feed.ends:
        feed.play_to(min(feed.at + LOOK, feed.ends))
        session.tick()
        for name, node in session.state.nodes.items():
            if links.get(name) != node.link:
                links[name] = node.link
                told.append({"at": node.since, "node": name, "link": node.link, "why": node.why})
        told += [
            {"at": change.at, "node": change.node, "mark": change.kind, "text": change.text}
            for change in session.state.changes.since(noted)
            if change.kind in MARKS
        ]
        noted = session.state.changes.noted
        if feed.at >= judge_at or feed.at == feed.ends:
            session.diagnose()
            judge_at = feed.at + JUDGED
        yield from map(json.dumps, told)
        told.clear()
