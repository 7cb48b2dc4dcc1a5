"""Where ranks wait: those in the same operation at the same place of the program are one point."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hangtop.diagnosis.phrasing import rank_text
from hangtop.diagnosis.stacks.doing import Activity
from hangtop.diagnosis.stacks.waits import ROOTS
from hangtop.diagnosis.waits.rank_status import RankStatus

if TYPE_CHECKING:
    from hangtop.diagnosis.waits.graph import WaitGraph

MEANING = "⟨"
"""Begins a folded frame that says what library frames mean."""
OPEN_PHASES = ("backward", "forward")
INNER_GROUPS = frozenset({"tensor", "pipeline", "expert", "context"})
"""Model-parallel groups: their operations come inside a step, those of data-parallel groups at its end."""


@dataclass(frozen=True, slots=True)
class WaitPoint:
    """Ranks that wait in the same operation at the same place of the program."""

    kind: str
    op: str
    place: str
    inner: bool
    """The operation belongs to a group that is smaller than the job."""
    members: tuple[RankStatus, ...]
    root: int | None = None
    """The rank that the operation begins or ends at, where the frames of all its members tell."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """Their numbers."""
        return tuple(member.rank for member in self.members)

    @property
    def name(self) -> str:
        """``all_reduce``, ``backward``, ``its GPU``."""
        return self.op or {"store": "a store wait", "code": "C code"}.get(self.kind, self.kind)

    @property
    def told(self) -> str:
        """``in all_reduce at train (train.py:31)``, ``for their own GPU at log_metrics (train.py:85)``."""
        own = "for its own GPU" if len(self.members) == 1 else "for their own GPU"
        what = own if self.kind == "device" else f"in {self.name}"
        way = "to" if ROOTS.get(self.op) == "dst" else "from"
        root = "" if self.root is None else f" {way} {rank_text(self.root)}"
        return what + root + (f" at {self.where}" if self.where else "")

    @property
    def where(self) -> str:
        """User frame of its first rank; empty where its members wait at different ones, or nobody saw their frames."""
        one = self.kind != "device" or (self.members[0].seen and len({m.where for m in self.members}) == 1)
        return self.members[0].where if one else ""

    @property
    def path(self) -> tuple[str, ...]:
        """The user's functions that lead there, outermost first, without their lines."""
        doing = self.members[0].activity
        frames = [frame for frame in doing.frames if not frame.startswith(MEANING)] if doing else []
        return tuple(frame.rpartition(":")[0] for frame in frames)


def points_of(waiting: Sequence[RankStatus]) -> tuple[WaitPoint, ...]:
    """Group those who wait. A wait for one's own GPU is one point whatever the line: kernels are queued far ahead.

    Inside a backward or forward pass the Python frames do not name the operation. Where native frames did so for some
    ranks only, those and the others at the same line are one point.
    """
    groups: dict[tuple[str, str, str, bool], list[RankStatus]] = defaultdict(list)
    for status in waiting:
        groups[point_of(status.activity)].append(status)
    for key, members in list(groups.items()):
        if key[0] in OPEN_PHASES:
            for other in [
                other for other in groups if other[0] == "collective" and _same_phase(key, members, groups[other])
            ]:
                members.extend(groups.pop(other))
    made = (
        WaitPoint(kind, op, place, inner, tuple(sorted(party, key=lambda member: member.rank)), root)
        for (kind, op, place, inner), members in groups.items()
        for root, party in _by_root(members)
    )
    return tuple(sorted(made, key=lambda point: (-len(point.members), point.ranks)))


def _by_root(members: Sequence[RankStatus]) -> Iterable[tuple[int | None, Sequence[RankStatus]]]:
    """Apart by the root of the operation that they are in, where each of them tells its own."""
    parties: dict[int | None, list[RankStatus]] = defaultdict(list)
    for member in members:
        parties[member.activity.root if member.activity is not None else None].append(member)
    return [(None, members)] if None in parties else parties.items()


def point_of(doing: Activity | None) -> tuple[str, str, str, bool]:
    """Kind, operation and place at which one waits, and whether the operation belongs to a group within the job."""
    if doing is None or doing.error or doing.kind == "device":
        return "device", "", "", False
    named_inner = doing.world is None and doing.group in INNER_GROUPS
    inner = doing.kind == "p2p" or doing.world is False or named_inner
    return doing.kind, doing.op, doing.place, inner


def _same_phase(key: tuple[str, str, str, bool], members: Sequence[RankStatus], others: Sequence[RankStatus]) -> bool:
    own, other = members[0].activity, others[0].activity
    return own is not None and other is not None and key[0] in other.context and own.where == other.where


MOST = 4
"""Places of one standing job that are told: where more ranks are elsewhere, it stands at none in particular."""


def standing_at(graph: WaitGraph | None) -> str:
    """What those do that are waited for, else where the ranks wait: ``data in read_shard (data.py)``.

    Without lines, as one looks at other lines of one loop each time; empty where nobody waits or nothing was seen.
    """
    if graph is None:
        return ""
    held = graph.culprits or tuple(point.members[0] for point in graph.points)
    places = sorted({_place(status) for status in held})
    return "; ".join(filter(None, places)) if len(places) <= MOST else ""


def _place(status: RankStatus) -> str:
    doing = status.activity
    if doing is None or doing.error:
        return ""
    function = status.where.rpartition(":")[0]
    phases = " ".join(sorted({doing.kind, *doing.context}))
    return f"{phases} in {function})" if function else phases
