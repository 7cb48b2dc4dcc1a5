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
    def text(self) -> str:
        """``in all_reduce at train (train.py:31)``, ``for their own GPU at log_metrics (train.py:85)``.

        Native frames of one rank name the collective for all members, also for members without native frames.
        """
        gpu = "for its own GPU" if len(self.members) == 1 else "for their own GPU"
        seen = next(filter(None, (member.activity.op for member in self.members if member.activity)), "")
        name = self.op or seen or {"store": "a store wait", "code": "C code"}.get(self.kind, self.kind)
        return (gpu if self.kind == "device" else f"in {name}") + (f" at {self.where}" if self.where else "")

    @property
    def where(self) -> str:
        """User frame of the first member; empty for waits for GPUs at several lines or without frames."""
        same_line = self.kind != "device" or (self.members[0].read and len({m.where for m in self.members}) == 1)
        return self.members[0].where if same_line else ""


def points_of(waiting: Sequence[RankStatus]) -> tuple[WaitPoint, ...]:
    """Group waiting ranks. All waits for a rank's own GPU are one point at any line: kernels are queued far ahead.

    A collective called by a hook of ``backward`` joins the point of other ranks in ``backward`` at that line.
    """
    activities = [status.activity for status in waiting]
    backward = {doing.where: _key(doing) for doing in activities if doing is not None and doing.kind == "backward"}
    groups: dict[PointKey, list[RankStatus]] = defaultdict(list)
    for status, doing in zip(waiting, activities, strict=True):
        inside = doing is not None and "backward" in doing.context and doing.where in backward
        groups[backward[doing.where] if doing is not None and inside else _key(doing)].append(status)
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
    standing = [status for status in waiting if status.frozen is True and status.held >= STOOD_STILL_S]
    movers = {rank for rank, status in statuses.items() if status.frozen is False and status.present}
    if not standing or not movers:
        return statuses
    named: dict[int, set[int]] = defaultdict(set)
    for edge in edges:
        named[edge.waiter].update(edge.for_ranks)
    part = {status.rank for status in standing}.union(*(named[status.rank] for status in standing))
    unnamed = [status for status in standing if not named[status.rank]]
    arrived = sorted(unnamed, key=lambda status: status.held, reverse=True)
    at_point = {_key(status.activity): status for status in arrived}  # per point, the rank that arrived last
    passed = {rank for rank in movers if all(_passed(statuses[rank], status) for status in at_point.values())}
    others = statuses.keys() - part if not unnamed else passed - part
    return {rank: status for rank, status in statuses.items() if rank not in others} if others <= movers else statuses


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
    waiting = ((status.rank, status.activity) for status in statuses if status.state == "waiting")
    activities = {rank: activity for rank, activity in waiting if activity is not None and activity.kind == "p2p"}
    for rank, activity in activities.items():
        other = activities.get(activity.peer) if activity.peer is not None else None
        meets = other is not None and other.peer == rank and other.op != activity.op
        if activity.peer is not None and activity.peer != rank and not meets:
            yield WaitEdge(rank, (activity.peer,), "", activity.op, None, certain=True)
