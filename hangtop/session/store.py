"""The sink of a fleet or a recording: applies every sample to the job's state, on this machine's clock."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple, cast

from collectors.fleet import bounds
from collectors.fleet.sink import LinkChange
from collectors.samples.host import HostFacts
from collectors.samples.inside import InsideGone, InsidePulse, InsideResult
from collectors.samples.logs import CommProgress, LogEvent, LogLines, LogsRead, StepCount
from collectors.samples.ranks import HelperGone, IdleLauncher, RankGone, RankProcess
from collectors.samples.registry import SAMPLES
from collectors.samples.stacks import StackDump
from collectors.samples.stream import Hello, SourceState, Tick
from hangtop.diagnosis.job import LinkWord
from hangtop.session.apply import gpus, messages, network, ranks, stream  # noqa: F401 - each registers its functions
from hangtop.session.apply.dispatch import APPLIERS, TOGETHER, SampleContext
from hangtop.session.state.changes import ChangeKind
from hangtop.session.state.job_state import JobState, NodeState, surplus
from hangtop.session.state.sharing import STANDING, shared

WINDOW = 60
"""Answers after which an old best is forgotten, so that drift and a corrected clock are followed."""
SAME = 0.05
"""Seconds: a clock this near is taken as ours, which spares every sample a shift."""


class ClockOffset:
    """Minimum-delay filter.

    An answer stamped ``clock`` there that arrives at ``arrived`` here shows ``clock - arrived``: the offset less the
    delay of its way. The largest of them is the one with the least delay, and nearest to the truth. Answers come in
    the order in which they were made: one stamped earlier than the one before shows that the clock was set back.
    """

    __slots__ = ("_best", "_count", "_last", "_previous")

    def __init__(self) -> None:
        self._best: float | None = None
        self._previous: float | None = None
        self._last: float | None = None
        self._count = 0

    def learn(self, clock: float, arrived: float) -> float:
        """Take one answer and return the offset: seconds that the node's clock is ahead of ours.

        The same answer may be taken again.
        """
        shown = clock - arrived
        if self._last is not None and clock < self._last:
            self._best = self._previous = None
            self._count = 0
        again, self._last = clock == self._last, clock
        if self._best is None or shown > self._best:
            self._best = shown
        self._count += not again
        best = self._best if self._previous is None else max(self._best, self._previous)
        if self._count >= WINDOW:
            self._previous, self._best, self._count = self._best, None, 0
        return best


def shift_of(offset: float | None) -> float:
    """Seconds to take from the node's times to bring them onto our clock."""
    return 0.0 if offset is None or -SAME < offset < SAME else offset


TIMES: dict[type, tuple[str, ...]] = {
    SourceState: ("since",),
    RankProcess: ("started",),
    RankGone: ("at",),
    HelperGone: ("at",),
    IdleLauncher: ("started", "since"),
    LogLines: ("at",),
    LogEvent: ("at",),
    CommProgress: ("at",),
    StepCount: ("at",),
    LogsRead: ("at",),
    HostFacts: ("booted",),
    StackDump: ("at",),
    InsidePulse: ("step_at", "phase_at"),
    InsideResult: ("at",),
    InsideGone: ("at",),
}
"""The fields of each kind that are times of the node's clock."""

WHYS = 8
"""Reasons that are told of one loss: attempts that fail now for this, now for that are no news."""
_DIGITS = re.compile(r"\d+")

CLOCKS = (Hello, Tick)
"""Kinds that are sent at once after they were made, and so show the node's clock."""

assert {*APPLIERS, *TOGETHER} == set(SAMPLES), "a kind of sample has no applier"


class Store:
    """Applies what comes in. Called on the event loop; costs about a microsecond a sample."""

    def __init__(self, state: JobState | None = None, clock: Callable[[], float] = time.time) -> None:
        self.state = state or JobState(started=clock())
        self.clock = clock
        self._offsets: dict[str, ClockOffset] = {}

    def samples(self, node: str, samples: Sequence[NamedTuple]) -> None:
        """Apply the samples of one chunk, in order (see :class:`collectors.fleet.sink.Sink`)."""
        state, arrived = self.node(node), self.clock()
        state.seen_at = arrived
        state.version += 1
        runs = [(kind, list(group)) for kind, group in groupby(samples, type)]
        here = SampleContext(self.state, state, self._flushed(state, runs, arrived))
        for number, (kind, group) in enumerate(runs):
            if kind not in CLOCKS:
                _apply(here, kind, group)
                continue
            for place, sample in enumerate(group):
                # What follows one that shows the node's clock is of the next flush.
                self._learn(state, sample, arrived)
                APPLIERS[kind](here, shared(sample) if isinstance(sample, Hello) else sample)
                here.flushed()
                here.at = self._flushed(state, [(kind, group[place + 1 :]), *runs[number + 1 :]], arrived)
        here.flushed()
        much = surplus(state)
        if much and state.link == "live":
            self.link(LinkChange(node, "limited", f"it names {much}: more is not kept", arrived))

    def link(self, change: LinkChange) -> None:
        """Take a node's new connection state."""
        node, why = self.node(change.node), f": {change.why}" if change.why else ""
        here, shape = SampleContext(self.state, node, change.at), _DIGITS.sub("#", change.why)
        if node.link != change.link:
            node.told_whys = frozenset((shape,)) if change.link == "lost" else frozenset()
            if node.since or change.link != "connecting":
                here.note(change.link + why, _kind(node.link, change.link))
        elif change.link == "lost" and shape not in node.told_whys and len(node.told_whys) < WHYS:
            node.told_whys |= {shape}  # cut first, and then it is another machine that answers there
            here.note(f"still lost{why}", "lost")
        if node.link != change.link or not node.since:
            node.since = change.at
        node.link, node.why, node.next_try = change.link, change.why, change.next_try
        node.version += 1

    def bad_line(self, node: str, text: str, why: str) -> None:
        """Count a line that did not decode and keep its beginning."""
        here = self.node(node)
        here.bad_lines += 1
        here.last_bad = f"{why}: {text[:200]}"
        here.version += 1

    def node(self, name: str) -> NodeState:
        """State of a node, made when first named."""
        known = self.state.nodes.get(name)
        if known is None:
            known = self.state.nodes[name] = NodeState(name)
        return known

    def _learn(self, node: NodeState, sample: NamedTuple, arrived: float) -> None:
        assert isinstance(sample, Hello | Tick)
        filter_ = self._offsets.get(node.name)
        if filter_ is None or isinstance(sample, Hello):
            filter_ = self._offsets[node.name] = ClockOffset()
        node.clock_offset = filter_.learn(sample.clock, arrived)

    def _flushed(self, node: NodeState, runs: Sequence[tuple[type, list[NamedTuple]]], arrived: float) -> float:
        """Our time of the flush that begins with ``runs``: its tick tells, also when several came in one chunk.

        A clock that was set since the flush before is known before its times are read.
        """
        if node.clock_offset is not None:
            for kind, group in runs:
                if kind is Tick and group:
                    tick = group[0]
                    assert isinstance(tick, Tick)
                    self._learn(node, tick, arrived)
                    return min(arrived, tick.clock - node.clock_offset)
        return arrived


def _kind(before: LinkWord, now: LinkWord) -> ChangeKind:
    if now in {"lost", "stale"}:
        return "lost"
    if now == "limited":
        return "late"
    return "back" if now == "live" and before in {"lost", "stale", "limited"} else "hangtop"


def _apply(here: SampleContext, kind: type, group: list[NamedTuple]) -> None:
    """Apply samples of one kind that came side by side."""
    if kind is RankProcess:
        group = [*ranks.kept(here, cast("list[RankProcess]", group))]
    if kind in STANDING:
        group = [shared(sample) for sample in group]
    if kind in TIMES and (shift := shift_of(here.node.clock_offset)):
        group = [shifted(sample, TIMES[kind], shift) for sample in group]
    together = TOGETHER.get(kind)
    if together is not None:
        together(here, group)
        return
    apply = APPLIERS[kind]
    for sample in group:
        apply(here, sample)


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
