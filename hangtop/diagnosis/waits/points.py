"""Wait points: ranks that wait in the same operation at the same place of the program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hangtop.diagnosis.collectives.progress import WaitEdge
from hangtop.diagnosis.stacks.states import Activity
from hangtop.diagnosis.tables.thresholds import STOOD_STILL_S
from hangtop.diagnosis.waits.rank_status import RankStatus, in_state

PointKey = tuple[str, str, str, bool]


@dataclass(frozen=True, slots=True)
class WaitPoint:
    """Ranks that wait in the same operation at the same place of the program."""

    kind: str
    op: str
    place: str
    inner: bool
    """The operation belongs to a group that is smaller than the job."""
    members: tuple[RankStatus, ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        """Rank numbers of the members."""
        return tuple(member.rank for member in self.members)

    @property
    def told(self) -> str:
        """``in all_reduce at train (train.py:31)``, ``for their own GPU at log_metrics (train.py:85)``.

        Native frames of one rank name the collective for all members, also for members without native frames.
        """
        own = "for its own GPU" if len(self.members) == 1 else "for their own GPU"
        seen = next((one.activity.op for one in self.members if one.activity is not None and one.activity.op), "")
        name = self.op or seen or {"store": "a store wait", "code": "C code"}.get(self.kind, self.kind)
        return (own if self.kind == "device" else f"in {name}") + (f" at {self.where}" if self.where else "")

    @property
    def where(self) -> str:
        """User frame of the first member; empty for waits for GPUs at several lines or without frames."""
        one = self.kind != "device" or (self.members[0].read and len({m.where for m in self.members}) == 1)
        return self.members[0].where if one else ""


def points_of(waiting: Sequence[RankStatus]) -> tuple[WaitPoint, ...]:
    """Group waiting ranks. All waits for a rank's own GPU are one point at any line: kernels are queued far ahead.

    A collective called by a hook of ``backward`` joins the point of other ranks in ``backward`` at that line.
    """
    doing = [status.activity for status in waiting]
    backward = {one.where: _key(one) for one in doing if one is not None and one.kind == "backward"}
    groups: dict[PointKey, list[RankStatus]] = defaultdict(list)
    for status, one in zip(waiting, doing, strict=True):
        inside = one is not None and "backward" in one.context and one.where in backward
        groups[backward[one.where] if one is not None and inside else _key(one)].append(status)
    made = (WaitPoint(*key, tuple(sorted(members, key=lambda member: member.rank))) for key, members in groups.items())
    return tuple(sorted(made, key=lambda point: (-len(point.members), point.ranks)))


def _key(doing: Activity | None) -> PointKey:
    if doing is None or doing.error or doing.kind == "device":
        return "device", "", "", False
    return doing.kind, doing.op, doing.place, doing.kind == "p2p" or doing.world is False


# --- the part of a job that stands still ------------------------------------------------------------------------


def standing_part(statuses: Mapping[int, RankStatus], edges: Iterable[WaitEdge]) -> Mapping[int, RankStatus]:
    """The ranks that stand still and the ranks for which they wait, if all other ranks make progress; else all ranks.

    One of several independent pipelines or replicas may hang alone. A rank waits for the ranks that an edge names. A
    rank without an edge waits for every rank except the ranks that were in the same operation and left: their group is
    another one. A wait shorter than ``STOOD_STILL_S`` belongs to the rhythm of a moving part.
    """
    waiting = in_state(statuses, "waiting")
    standing = [one for one in waiting if one.frozen is True and one.held >= STOOD_STILL_S]
    movers = {rank for rank, one in statuses.items() if one.frozen is False and one.present}
    if not standing or not movers:
        return statuses
    named: dict[int, set[int]] = defaultdict(set)
    for edge in edges:
        named[edge.waiter].update(edge.for_ranks)
    part = {one.rank for one in standing}.union(*(named[one.rank] for one in standing))
    unnamed = sorted((one for one in standing if not named[one.rank]), key=lambda one: one.held, reverse=True)
    at_point = {_key(one.activity): one for one in unnamed}  # per point, the rank that arrived last
    passed = {rank for rank in movers if all(_passed(statuses[rank], one) for one in at_point.values())}
    others = statuses.keys() - part if not unnamed else passed - part
    return {rank: one for rank, one in statuses.items() if rank not in others} if others <= movers else statuses


def _passed(status: RankStatus, standing: RankStatus) -> bool:
    """Whether a moving rank was seen in the operation in which ``standing`` waits, and left the operation.

    A later sample shows the rank elsewhere, or every sample shows it there although its wakes or steps prove motion. No
    rank passes an operation of the whole job.
    """
    doing = standing.activity
    if doing is None or doing.world:
        return False
    samples = [sample for sample in status.readings if sample.at >= doing.since]
    met = [(sample.kind, sample.op, sample.place) == (doing.kind, doing.op, doing.place) for sample in samples]
    return True in met and (all(met) or False in met[met.index(True) :])


# --- sends and receives ------------------------------------------------------------------------------------------


def by_frames(statuses: Iterable[RankStatus]) -> Iterator[WaitEdge]:
    """Waits of sends and receives for a peer that frames name, unless the peer waits in the matching half.

    Frames name the peer without a flight recorder; gloo's recorder keeps no sends and receives.
    """
    waiting = (one for one in statuses if one.state == "waiting" and one.activity and one.activity.kind == "p2p")
    doing = {one.rank: one.activity for one in waiting if one.activity is not None}
    for rank, own in doing.items():
        other = doing.get(own.peer) if own.peer is not None else None
        meets = other is not None and other.peer == rank and other.op != own.op
        if own.peer is not None and own.peer != rank and not meets:
            yield WaitEdge(rank, (own.peer,), "", own.op, None, certain=True)
