"""Who waits for whom: follow every wait to its end and find the ranks that hold the others up.

A rank that does not wait ends the chain: it is the culprit however few wait for it. Where all wait, sends and receives
may close a circle; else the ranks at another point of the program are odd (:mod:`hangtop.diagnosis.waits.odd`). Pure
functions over the statuses of ranks.

Example: ranks 0, 1 and 3 are in ``all_reduce``, rank 2 reads a file: ``held_up``, culprit 2. If rank 2 is in a
``barrier`` instead: ``mismatch``, culprit 2. If all four are in the same ``all_reduce``: ``stalled``, nobody is odd.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Literal

from hangtop.diagnosis.collectives.ends import circle_of
from hangtop.diagnosis.collectives.progress import WaitEdge
from hangtop.diagnosis.waits.odd import OddRanks, Source, odd_ranks, threads_rest
from hangtop.diagnosis.waits.points import WaitPoint, by_frames, points_of, standing_part
from hangtop.diagnosis.waits.rank_status import WAITS, RankStatus, State, in_state

Pattern = Literal["held_up", "deadlock", "mismatch", "stalled", "unclear"]
"""How a graph looks.

``held_up``: somebody does not wait; ``deadlock``: sends and receives wait in a circle; ``mismatch``: ranks wait at
different operations; ``stalled``: all wait in one operation, or those of a sub-group do, and the others wait for them;
``unclear``: all that could be read wait, and some could not be.
"""

HARD: tuple[State, ...] = ("gone", "missing", "stopped", "uninterruptible")
PLAIN_HALVES = frozenset({"send", "recv"})
"""Operations that wait for one peer, each way."""


@dataclass(frozen=True, slots=True)
class WaitGraph:
    """Ranks that wait, and the end of their wait."""

    pattern: Pattern
    waiters: tuple[RankStatus, ...]
    """Those who wait and are not to blame. Empty where all are in one operation, and none is more to blame."""
    culprits: tuple[RankStatus, ...]
    points: tuple[WaitPoint, ...]
    """Where the ranks wait that wait, the largest first."""
    accused: tuple[WaitPoint, ...]
    """Points of the culprits, where culprits wait too."""
    held: float
    """Seconds for which the waiters were seen to wait without a break."""
    frozen: bool
    """The waiters were seen to stand still; False where they spin and cannot be told from moving by their CPU."""
    by: Source | None = None
    """What sets the culprits of a mismatch apart; None where nothing does, and all are named."""
    part: bool = False
    """Ranks that none of these wait for go on."""


def find_waits(statuses: Mapping[int, RankStatus], edges: Iterable[WaitEdge]) -> WaitGraph | None:
    """Find who waits for whom in a job; None while nobody waits or the waits are seen to end and begin again.

    ``edges`` tell for which ranks some ranks wait, by recorders, logs and frames.
    """
    among = standing_part(statuses, edges)
    waits, part = in_state(among, *WAITS), len(among) < len(statuses)
    still = sum(one.frozen is not False for one in waits)
    if not still or still * 2 < len(waits):
        return None
    odd = odd_ranks(points_of(waits))
    hard, working = in_state(among, *HARD), [*in_state(among, "working", "leaving"), *_not_launched(waits, odd)]
    if hard or working:
        culprits = sorted((*hard, *working), key=lambda one: one.rank)
        return _graph("held_up", waits, culprits, None, part=part)
    if in_state(among, "unseen"):
        return _graph("unclear", waits, (), None, part=part)
    pattern, ranks = _all_wait(waits, odd)
    culprits = [one for one in waits if one.rank in ranks]
    return _graph(pattern, waits, culprits, odd.by if odd is not None and pattern != "deadlock" else None, part=part)


def _graph(
    pattern: Pattern, waits: Sequence[RankStatus], culprits: Sequence[RankStatus], by: Source | None, *, part: bool
) -> WaitGraph:
    blamed = {one.rank for one in culprits}
    waiters = [one for one in waits if one.rank not in blamed]
    seen = [one for one in waiters or culprits if one.frozen is not False]
    held = median_low([one.held for one in seen]) if seen else 0.0
    accused: tuple[WaitPoint, ...] = ()
    if pattern not in ("held_up", "unclear"):
        accused = points_of(culprits)
        held = min(held, *(one.held for one in waits))  # what all take part in may end once the last of them has come
    points = sorted((*accused, *points_of(waiters)), key=lambda point: (-len(point.members), point.ranks))
    frozen = bool(seen) and 2 * sum(one.frozen is True for one in seen) > len(seen)
    return WaitGraph(pattern, tuple(waiters), tuple(culprits), tuple(points), accused, held, frozen, by, part)


def _not_launched(waits: Sequence[RankStatus], odd: OddRanks | None) -> list[RankStatus]:
    """Ranks that wait for a kernel before the one that all others wait in, by what GPUs or network threads do."""
    late = [one for one in waits if odd is not None and odd.by in ("gpus", "threads") and one.rank in odd.ranks]
    before = all(one.kind == "device" and (one.load == "idle" or threads_rest(one)) for one in late)
    return [one._replace(state="on_gpu") for one in late] if before else []


def _all_wait(waits: Sequence[RankStatus], odd: OddRanks | None) -> tuple[Pattern, Collection[int]]:
    """How a job looks in which every rank waits, and the ranks that are to blame for it."""
    points, every = points_of(waits), {one.rank for one in waits}
    sends = [point for point in points if point.kind == "p2p"]
    if circle := _circle([member for point in sends for member in point.members], everybody=len(sends) == len(points)):
        return "deadlock", circle
    if odd is None:
        # the kernel that some wait for may be the very collective that the others are in
        together = len(points) == 1 or any(point.kind == "device" for point in points)
        return "stalled" if together else "mismatch", every
    accused = [point for point in points if odd.ranks.issuperset(point.ranks)]
    together = odd.by == "groups" and len(accused) == 1 and len(odd.ranks) > 1 and accused[0].kind != "p2p"
    return "stalled" if together else "mismatch", odd.ranks


def _circle(members: Sequence[RankStatus], *, everybody: bool) -> set[int]:
    """Ranks whose sends and receives wait for one another in a circle.

    With the peers known, the circle is followed. With none known there is one circle that can be told: where everybody
    who is there only receives, or only sends, one plain operation each, no operation can be served. A batched exchange
    has both halves, and a send that meets its receive is no circle, even when neither ends.
    """
    doing = {member.rank: member.activity for member in members if member.activity}
    if all(own.peer is None for own in doing.values()):
        sides = {own.op for own in doing.values()}
        return set(doing) if everybody and len(doing) > 1 and len(sides) == 1 and sides <= PLAIN_HALVES else set()
    return circle_of({edge.waiter: edge.for_ranks for edge in by_frames(members)})
