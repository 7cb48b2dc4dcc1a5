"""The history of one job: a day of figures, and past verdicts.

The session's tick feeds it about once a second; a day takes 16 MB.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import NamedTuple

from hangtop.diagnosis.finding import Outcome, Verdict
from hangtop.diagnosis.node import Node
from hangtop.session.motion.progress import LOCAL, SLICE, ProgressClock
from hangtop.session.state import JobState

DAY, HOUR = 86_400, 3600
"""Seconds."""
HOLD = 5
"""Seconds for which a value holds without a newer one: samples come slightly less often than once a second."""


class Span(NamedTuple):
    """A figure's mean and highest value in one stretch of time."""

    mean: float
    high: float


class Series:
    """One figure of a job over time: the values of one day."""

    def __init__(self) -> None:
        self._times, self._values = array("d"), array("d")
        self.newest: float | None = None
        """The value added last; None for a gap."""

    def add(self, at: float, value: float | None) -> None:
        """Add the value of this moment; None, NaN and infinity are gaps."""
        self.newest = value
        if value is None or not isfinite(value) or (self._times and at <= self._times[-1]):
            return
        self._times.append(at)
        self._values.append(value)
        if self._times[0] < at - DAY - HOUR:
            old = bisect_left(self._times, at - DAY)
            del self._times[:old], self._values[:old]

    def spans(self, begin: float, step: float, count: int) -> list[Span | None]:
        """``count`` stretches of ``step`` seconds from ``begin`` on; a stretch without values is None."""
        return [self._span(begin + number * step, begin + (number + 1) * step) for number in range(count)]

    def at(self, moment: float) -> float | None:
        """The value that held at a moment; None without one."""
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
"""Figures of a job: the verdict's index in :data:`WORDS`; moving and living ranks; steps per second; of all GPUs watts,
mean utilisation in per cent and bytes in use; bytes of memory that the ranks hold; bytes per second that HCA ports and
network interfaces send; TCP segments per second that were retransmitted."""


def figures_of(node: Node) -> Iterator[tuple[str, float | None]]:
    """The figures of a node's devices and ranks, to be summed by name; None if not known."""
    for gpu in node.gpus.values():
        row = gpu.samples.newest
        if row is not None and gpu.fault is None:
            yield "gpu_memory", row.memory_used
            yield "power", row.power
            yield "used", row.utilization
            yield "gpus", None if row.utilization is None else 1
    for rank in node.ranks.values():
        if rank.gone_at is None and rank.pulses.newest is not None:
            yield "memory", rank.pulses.newest.rss
    for port in node.ports.values():
        yield "ports", port.sent_per_s
    sent = [each.sent_per_s for each in node.interfaces.values() if each.facts.kind not in LOCAL]
    # a bridge and its interfaces carry the same traffic: only the busiest interface counts
    yield "network", max((rate for rate in sent if rate is not None), default=None)
    yield "retransmitted", node.retransmitted_per_s


WORDS: tuple[Outcome, ...] = (
    "idle", "healthy", "starting", "unknown", "waiting", "slow", "at_risk", "crashed", "hung",
)  # fmt: skip
"""Outcomes of verdicts, the worst last: a stretch of time shows its worst outcome."""
VERDICTS = 200
"""Verdicts that are kept: one for each change of content, and one for each minute."""


class History:
    """Call :meth:`taking` about once a second."""

    def __init__(self) -> None:
        self.series: Mapping[str, Series] = {name: Series() for name in FIGURES}
        self.verdicts: list[tuple[float, Verdict]] = []
        """(time, verdict), oldest first."""

    def taking(self, now: float, state: JobState, progress: ProgressClock, verdict: Verdict | None) -> Iterator[None]:
        """Add the figures of this moment, in slices between which the event loop can do other work."""
        found: dict[str, float] = {}
        nodes = [node for node in state.nodes.values() if node.connected and node.seen_at is not None]
        for number, node in enumerate(nodes, 1):
            for name, value in figures_of(node):
                if value is not None:
                    found[name] = found.get(name, 0.0) + value
            if number % SLICE == 0:
                yield
        figures: dict[str, float | None] = {**found}
        if "gpus" in found:
            figures["utilisation"] = found["used"] / found["gpus"]
        if progress.alive:
            figures |= {"moving": progress.alive - len(progress.stopped), "alive": progress.alive}
        figures["steps"] = progress.steps.per_second()
        figures["verdict"] = None if verdict is None else float(WORDS.index(verdict.outcome))
        for name, series in self.series.items():
            series.add(now, figures.get(name))

    def judged(self, at: float, verdict: Verdict) -> None:
        """Keep a verdict if its content differs from the last one, or if the last one is a minute old."""
        last = self.verdicts[-1] if self.verdicts else None
        if last is None or says(last[1]) != says(verdict) or at - last[0] >= 60.0:
            self.verdicts.append((at, verdict))
            del self.verdicts[:-VERDICTS]

    def verdict_at(self, at: float) -> Verdict | None:
        """The verdict in force at a time; None before the first."""
        place = bisect_right(self.verdicts, at, key=lambda said: said[0])
        return self.verdicts[place - 1][1] if place else None


def says(verdict: Verdict) -> tuple[object, ...]:
    """The content of a verdict for comparison: without its texts, in which seconds change."""
    return verdict.outcome, *((f.kind, f.ranks, f.nodes, f.gpus, f.ports) for f in verdict.findings)
