"""The history of one job: its figures for a day, since when ranks stand still, and the verdicts that were given.

Fed by the session's own tick, about once a second; a day takes 16 MB.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import NamedTuple

from hangtop.diagnosis.finding import Outcome, Verdict
from hangtop.diagnosis.node import Node
from hangtop.session.motion.progress import LOCAL, SLICE, Progress
from hangtop.session.state import JobState

DAY, HOUR = 86_400, 3600
"""Seconds."""
HOLD = 5
"""Seconds for which a value holds when nothing was added: looks come a little later than once a second."""


class Span(NamedTuple):
    """What a figure was in one stretch of time."""

    mean: float
    high: float


class Series:
    """One figure of a job over time: its values of a day."""

    def __init__(self) -> None:
        self._times, self._values = array("d"), array("d")
        self.newest: float | None = None
        """The value that came last."""

    def add(self, at: float, value: float | None) -> None:
        """Take the value of this moment; None and what is no number are gaps."""
        self.newest = value
        if value is None or not isfinite(value) or (self._times and at <= self._times[-1]):
            return
        self._times.append(at)
        self._values.append(value)
        if self._times[0] < at - DAY - HOUR:
            old = bisect_left(self._times, at - DAY)
            del self._times[:old], self._values[:old]

    def spans(self, begin: float, step: float, count: int) -> list[Span | None]:
        """``count`` stretches of ``step`` seconds from ``begin`` on; each None where nothing was seen."""
        return [self._span(begin + number * step, begin + (number + 1) * step) for number in range(count)]

    def at(self, moment: float) -> float | None:
        """The value that held at a moment; None where nothing was seen."""
        found = self._span(moment, moment)
        return None if found is None else found.mean

    def _span(self, begin: float, end: float) -> Span | None:
        first, behind = bisect_left(self._times, begin), bisect_left(self._times, end)
        if first == behind and (held := bisect_right(self._times, begin)) and begin - self._times[held - 1] < HOLD:
            first, behind = held - 1, held
        seen = self._values[first:behind]
        return Span(sum(seen) / len(seen), max(seen)) if seen else None


FIGURES = ("verdict", "moving", "alive", "steps", "power", "utilisation", "gpu_memory", "memory", "ports", "network",
           "retransmitted")  # fmt: skip
"""Figures of a job: ranks that moved, of so many that live; steps a second; watts, mean utilisation in per cent and
bytes in use of all GPUs; bytes that the ranks hold in memory; bytes a second that HCA ports and network interfaces
send; TCP segments a second that were sent again; the place of the verdict's word in :data:`WORDS`."""


def figures_of(node: Node) -> Iterator[tuple[str, float | None]]:
    """The figures of a node's devices and ranks, each to be added up; None where it is not known."""
    for gpu in node.gpus.values():
        row = gpu.looks.newest
        if row is not None and gpu.fault is None:
            yield "gpu_memory", row.memory_used
            yield "power", row.power
            yield "used", row.utilization
            yield "gpus", None if row.utilization is None else 1
    for rank in node.ranks.values():
        if rank.gone_at is None and rank.looks.newest is not None:
            yield "memory", rank.looks.newest.rss
    for port in node.ports.values():
        yield "ports", port.sent_per_s
    sent = [each.sent_per_s for each in node.interfaces.values() if each.facts.kind not in LOCAL]
    # of a bridge and what is behind it the busier
    yield "network", max((rate for rate in sent if rate is not None), default=None)
    yield "retransmitted", node.retransmitted_per_s


WORDS: tuple[Outcome, ...] = (
    "idle", "healthy", "starting", "unknown", "waiting", "slow", "at_risk", "crashed", "hung",
)  # fmt: skip
"""Words of verdicts, the worst last: of a stretch of time the worst is shown."""
FRESH = 1.2
"""Ticks of its node within which a rank has moved, to count as one that moves."""
SILENT = 3.0
"""Ticks that a node may be silent; what it does then is not known."""
VERDICTS = 200
"""Verdicts that are kept: one of each change of what they say, and of each minute."""


class History:
    """Call :meth:`taking` about once a second."""

    def __init__(self) -> None:
        self.series: Mapping[str, Series] = {name: Series() for name in FIGURES}
        self.stopped: dict[tuple[str, int], float] = {}
        """Since when each rank that stands still has done so, by node and pid."""
        self.verdicts: list[tuple[float, Verdict]] = []
        """Verdicts, and when each was given."""

    def taking(self, now: float, state: JobState, progress: Progress, verdict: Verdict | None) -> Iterator[None]:
        """Take the figures of this moment, in slices for those who have other things to do meanwhile."""
        found: dict[str, float] = {}
        stopped: dict[tuple[str, int], float] = {}
        alive = moving = 0
        nodes = [node for node in state.nodes.values() if node.link in {"live", "limited"} and node.seen_at is not None]
        for number, node in enumerate(nodes, 1):
            for name, value in figures_of(node):
                if value is not None:
                    found[name] = found.get(name, 0.0) + value
            for pid, known in progress.tracks.get(node.name, {}).items():
                if now - known.seen_at <= SILENT * progress.between + 1.0:
                    alive += 1
                    if known.advanced and known.moved_at >= known.seen_at - FRESH * progress.between:
                        moving += 1
                    else:
                        stopped[node.name, pid] = known.moved_at
            if number % SLICE == 0:
                yield
        self.stopped = stopped
        figures: dict[str, float | None] = {**found}
        if "gpus" in found:
            figures["utilisation"] = found["used"] / found["gpus"]
        if alive:
            figures |= {"moving": moving, "alive": alive}
        figures["steps"] = progress.steps_per_s(now)
        figures["verdict"] = None if verdict is None else float(WORDS.index(verdict.outcome))
        for name, series in self.series.items():
            series.add(now, figures.get(name))

    def judged(self, at: float, verdict: Verdict) -> None:
        """Keep a verdict: each that says something else than the one before, and one a minute."""
        last = self.verdicts[-1] if self.verdicts else None
        if last is None or says(last[1]) != says(verdict) or at - last[0] >= 60.0:
            self.verdicts.append((at, verdict))
            del self.verdicts[:-VERDICTS]

    def verdict_at(self, at: float) -> Verdict | None:
        """The verdict that stood at a time; None before the first."""
        place = bisect_right(self.verdicts, at, key=lambda said: said[0])
        return self.verdicts[place - 1][1] if place else None


def says(verdict: Verdict) -> tuple[object, ...]:
    """What a verdict says, without the seconds in its texts."""
    return verdict.outcome, *((f.kind, f.ranks, f.nodes, f.gpus, f.ports) for f in verdict.findings)
