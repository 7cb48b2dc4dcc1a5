"""The history of one job: its figures at three grains, what each rank did, and the verdicts that were given.

Fed by the session's own tick, about once a second. Bounded: 11 figures take 1.7 MB, a rank half a kilobyte,
and of a job of more than :data:`FINE` ranks only an hour by twenty seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from hangtop.diagnosis.finding import Outcome, Verdict
from hangtop.session.history.lanes import MOVED, STILL, Key, Lane
from hangtop.session.history.series import Series
from hangtop.session.motion.progress import Progress
from hangtop.session.motion.rank_progress import RankProgress
from hangtop.session.state.job_state import JobState, NodeState

LOCAL = ("loopback",)
"""Kinds of interfaces behind which no other node is."""


class NodeFigures(NamedTuple):
    """What one node has of each. None: it has no such thing, or did not tell yet."""

    moving: float | None = None
    """Ranks that moved, …"""
    alive: float | None = None
    """… of so many that live and are in view."""
    power: float | None = None
    """Watts of all GPUs."""
    used: float | None = None
    """Sum of the utilisation of …"""
    gpus: float | None = None
    """… so many GPUs, per cent."""
    gpu_memory: float | None = None
    """Bytes in use on all GPUs."""
    memory: float | None = None
    """Bytes that the processes of all ranks hold in their nodes' memory."""
    ports: float | None = None
    """Bytes a second that all HCA ports send."""
    network: float | None = None
    """The same of network interfaces; of a bridge and what is behind it the busier."""
    retransmitted: float | None = None
    """TCP segments a second that were sent again."""


NAMES = ("verdict", "moving", "alive", "steps", "power", "utilisation", "gpu_memory", "memory", "ports", "network",
         "retransmitted")  # fmt: skip
"""Figures of a job: those of its parts, with the mean utilisation, the steps a second, and the place of the verdict's
word in :data:`hangtop.session.history.history.WORDS`."""


def part_of(node: NodeState, moving: int, alive: int) -> NodeFigures:
    """Figures of one node that answers."""
    power = memory = used = 0.0
    rows = powered = gpus = 0
    for gpu in node.gpus.values():
        row = gpu.looks.newest
        if row is None or gpu.fault is not None:
            continue
        rows += 1
        memory += row.memory_used or 0
        if row.power is not None:
            power += row.power
            powered += 1
        if row.utilization is not None:
            used += row.utilization
            gpus += 1
    pulses = [rank.looks.newest for rank in node.ranks.values() if rank.gone_at is None]
    sent = [rate for port in node.ports.values() if (rate := port.rate("port_xmit_data")) is not None]
    busiest = [
        each.sent_per_s
        for each in node.interfaces.values()
        if each.sent_per_s is not None and each.facts.kind not in LOCAL
    ]
    return NodeFigures(
        moving=moving if alive else None,
        alive=alive or None,
        power=power if powered else None,
        used=used if gpus else None,
        gpus=gpus or None,
        gpu_memory=memory if rows else None,
        memory=float(sum(pulse.rss for pulse in pulses if pulse is not None)) if any(pulses) else None,
        ports=sum(sent) if sent else None,
        network=max(busiest, default=None),
        retransmitted=node.retransmitted_per_s,
    )


def summed(parts: Iterable[NodeFigures]) -> dict[str, float | None]:
    """The sums of all parts by their names, None where no part has any; with the mean utilisation of all GPUs."""
    found: dict[str, float | None] = dict.fromkeys(NodeFigures._fields)
    for name, column in zip(NodeFigures._fields, zip(*parts, strict=True), strict=False):
        known = [value for value in column if value is not None]
        found[name] = sum(known) if known else None
    used, gpus = found.pop("used"), found.pop("gpus")
    found["utilisation"] = used / gpus if used is not None and gpus else None
    return found


WORDS: tuple[Outcome, ...] = (
    "idle", "healthy", "starting", "unknown", "waiting", "slow", "at_risk", "crashed", "hung",
)  # fmt: skip
"""Words of verdicts, the worst last: of a stretch of time the worst is shown."""
FINE = 1024
"""Ranks of a job of which each is remembered by the second, …"""
HOUR, COARSE = (1, 3600), (20, 180)
"""… and in a larger one by 20 s: seconds of a cell, and cells."""
EVERY = 10
"""Ticks in which each node of a larger job is looked at once."""
FRESH = 1.2
"""Ticks of its node within which a rank has moved, to count as one that moves."""
SILENT = 3.0
"""Ticks that a node may be silent; what it does then is not known."""
VERDICTS = 200
"""Verdicts that are kept: one of each change of what they say, and of each minute."""
SLICE = 48
"""Nodes in one go."""


class PastVerdict(NamedTuple):
    """A verdict, and when it was given."""

    at: float
    verdict: Verdict


class History:
    """Call :meth:`taking` about once a second."""

    def __init__(self) -> None:
        self.series: Mapping[str, Series] = {name: Series() for name in NAMES}
        self.ranks: dict[Key, Lane] = {}
        self.verdicts: list[PastVerdict] = []
        self.began: float | None = None
        """When the first figures were taken."""
        self._parts: dict[str, NodeFigures] = {}
        """Figures of each node that answers, as they were when it was last looked at."""
        self._ticks = 0

    def taking(self, now: float, state: JobState, progress: Progress, verdict: Verdict | None) -> Iterator[None]:
        """Take the figures of this moment, in slices for those who have other things to do meanwhile."""
        tracks, between = progress.tracks, progress.between
        fine = sum(map(len, tracks.values())) <= FINE
        self.began = now if self.began is None else self.began
        self._ticks += 1
        nodes, parts = state.nodes, self._parts
        for number, node in enumerate(tuple(nodes.values()), 1):
            if node.link not in {"live", "limited"} or node.seen_at is None:
                parts.pop(node.name, None)
            elif fine or node.name not in parts or (number + self._ticks) % EVERY == 0:
                moved, seen = self._ranks(now, node, tracks.get(node.name, {}), between, fine=fine)
                parts[node.name] = part_of(node, moved, seen)
            if number % SLICE == 0:
                yield
        for name in parts.keys() - nodes.keys():
            del parts[name]
        figures = summed(parts.values())
        figures["steps"] = progress.steps_per_s(now)
        figures["verdict"] = None if verdict is None else float(WORDS.index(verdict.outcome))
        for name, series in self.series.items():
            series.add(now, figures[name])
        self._forget(state)

    def _ranks(
        self, now: float, node: NodeState, tracks: Mapping[int, RankProgress], between: float, *, fine: bool
    ) -> tuple[int, int]:
        """Take the ranks of a node; how many moved, and how many there are."""
        moved = seen = 0
        for pid, rank in node.ranks.items():
            known = tracks.get(pid)
            if known is None or rank.gone_at is not None or now - known.seen_at > SILENT * between + 1.0:
                continue
            moves = bool(known.moves) and known.moved_at >= known.seen_at - FRESH * between
            seen += 1
            moved += moves
            lane = self.ranks.get((node.name, pid))
            if lane is None:
                lane = self.ranks[node.name, pid] = Lane(*(HOUR if fine else COARSE))
            if not moves and lane.since is None and known.looks:
                # what was taken for a sign of life may have been none: a wait that polls is known after some looks
                lane.lower(known.moved_at)
            lane.since = None if moves else known.moved_at
            lane.put(known.seen_at, MOVED if moves else STILL, 3.0 * between if fine else EVERY + 3.0 * between)
        return moved, seen

    def _forget(self, state: JobState) -> None:
        """Drop ranks that the state has dropped: those that ended stay as long as they do there."""
        nodes = state.nodes
        if len(self.ranks) > sum(len(node.ranks) for node in nodes.values()):
            self.ranks = {
                (name, pid): lane
                for (name, pid), lane in self.ranks.items()
                if name in nodes and pid in nodes[name].ranks
            }

    def judged(self, at: float, verdict: Verdict) -> None:
        """Keep a verdict: each that says something else than the one before, and one a minute."""
        last = self.verdicts[-1] if self.verdicts else None
        before = self.verdicts[-2] if len(self.verdicts) > 1 else None
        same = last is not None and says(last.verdict) == says(verdict)
        if same and before is not None and says(before.verdict) == says(verdict) and at - before.at < 60.0:
            self.verdicts[-1] = PastVerdict(at, verdict)
        else:
            self.verdicts.append(PastVerdict(at, verdict))
        del self.verdicts[:-VERDICTS]

    def verdict_at(self, at: float) -> Verdict | None:
        """The verdict that stood at a time; None before the first."""
        place = bisect_right(self.verdicts, at, key=lambda said: said.at)
        return self.verdicts[place - 1].verdict if place else None


def says(verdict: Verdict) -> tuple[object, ...]:
    """What a verdict says, without the seconds in its texts."""
    return verdict.outcome, *((f.kind, f.ranks, f.nodes, f.gpus, f.ports) for f in verdict.findings)
