"""One moment of the past as a session: every panel shows it as it shows the present, and nobody can be asked in it."""

from __future__ import annotations

from collections.abc import Sequence

from collectors.fleet.sink import LinkChange
from collectors.fleet.transport import Transport, TransportError
from collectors.samples.collectives import RasEvent, RasReport, RecorderDump
from collectors.samples.control import Settings
from collectors.samples.logs import LogEvent, LogLines
from collectors.samples.stacks import StackDump
from hangtop.session.feed import Receiver
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from hangtop.session.state.changes import Changes
from hangtop.session.state.job_state import JobState
from hangtop.session.tape.blocks import About, RecordedBadLine, RecordedEntry, RecordedMark, RecordedPause, Stacks
from hangtop.session.tape.ring import Keyframe, Ring, thawed

KEPT = (LogLines, LogEvent, StackDump)
"""What the session keeps itself for as long as the ring does, or longer: it is taken from there; so are marks."""


class Still:
    """A feed that stands at one moment."""

    live = True
    connected = False

    def __init__(self, at: float) -> None:
        self.at = at

    def now(self) -> float:
        """The moment."""
        return self.at

    async def start(self, receiver: Receiver) -> None:
        """Nothing comes by itself."""

    async def close(self) -> None:
        """Nothing to end."""

    def transport(self, node: str) -> Transport:
        """There is none."""
        raise TransportError(f"{node}: this is a moment of the past")

    def python(self, node: str) -> str:
        """Refuse: see :meth:`transport`."""
        raise TransportError(f"{node}: this is a moment of the past")

    def retry(self, node: str) -> None:
        """Refuse: see :meth:`transport`."""
        raise TransportError(f"{node}: this is a moment of the past")

    def settings(self, node: str | None, settings: Settings) -> None:
        """Nothing to set."""


class Moment(Session):
    """A session as it was. Made by :func:`moment_at`; :meth:`show` completes it from the session that runs."""

    def __init__(self, options: SessionOptions, frame: Keyframe) -> None:
        self.still = Still(frame.at)
        super().__init__(options, feed=self.still)
        self._copied = {name: copy.at for name, copy in frame.nodes.items()}
        self.state.nodes.update({name: thawed(copy) for name, copy in frame.nodes.items()})
        self.state.progress.update(frame.progress)
        self.state.recorders.update(frame.recorders)

    @property
    def at(self) -> float:
        """The moment."""
        return self.still.at

    def play(self, entries: Sequence[RecordedEntry], until: float) -> None:
        """Go on to a later moment, by what was taken meanwhile."""
        for entry in entries:
            if entry.at <= self._copied.get(entry.node, 0.0):
                continue  # came before the node was copied, a moment after the frame was begun
            self.still.at = max(self.still.at, entry.at)
            self._take(entry)
        self.still.at = max(self.still.at, until)

    def _take(self, entry: RecordedEntry) -> None:
        payload = entry.payload
        if isinstance(payload, LinkChange):
            self.link(payload)
        elif isinstance(payload, RecordedBadLine):
            self.bad_line(entry.node, payload.text, payload.why)
        elif isinstance(payload, RecorderDump | RasReport | RasEvent):
            self.witness(payload)
        elif isinstance(payload, RecordedPause):
            self.pause(entry.node, payload.pids, over=payload.over)
        elif not isinstance(payload, Stacks | RecordedMark | About):
            rest = [sample for sample in payload if not isinstance(sample, KEPT)]
            self.samples(entry.node, rest, 0)

    def show(self, head: Session) -> None:
        """Take from the session that runs what it keeps itself, as far as it was known at this moment."""
        at, now, here = self.at, head.state, self.state
        here.started = now.started
        here.changes = Changes(change for change in now.changes if change.at <= at)
        _known(now, here, at)
        self.verdict = head.history.verdict_at(at)
        self.history, self.told.pace, self.traces = head.history, head.told.pace, head.traces
        self.probed = [answer for answer in head.probed if answer.report.at <= at]


def _known(now: JobState, here: JobState, at: float) -> None:
    here.stacks.clear()
    here.stacks.extend((node, dump) for node, dump in now.stacks if dump.at <= at)
    here.ras.clear()
    here.ras.extend(look for look in now.ras if look.at <= at)
    here.ras_events.clear()
    here.ras_events.extend(event for event in now.ras_events if event.at <= at)
    here.log_lines.clear()
    here.log_lines.extend((node, lines) for node, lines in now.log_lines if lines.at <= at)
    here.log_serial = len(here.log_lines)
    here.events.clear()
    here.events.extend((node, event) for node, event in now.events if event.at is None or event.at <= at)
    here.event_serial = len(here.events)


def moment_at(options: SessionOptions, ring: Ring, at: float) -> Moment:
    """Make a moment; takes some milliseconds a second since the frame before it, so not on the event loop."""
    at = max(at, ring.first)
    moment = Moment(options, ring.frame(at))
    moment.play(ring.read(moment.at, at), at)
    return moment
