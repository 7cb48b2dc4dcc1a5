"""The wait graph: follow every wait to its end and find the ranks that hold the others up.

A rank that does not wait ends the chain and is the culprit, even if few ranks wait for it. When every rank waits, sends
and receives may form a cycle; otherwise the ranks at another point of the program than the rest are the culprits
(:mod:`hangtop.diagnosis.waits.odd`). Pure functions over the statuses of ranks.

Example: ranks 0, 1 and 3 are in ``all_reduce``, rank 2 reads a file: ``held_up``, culprit 2. If rank 2 is in a
``barrier`` instead: ``mismatch``, culprit 2. If all four are in the same ``all_reduce``: ``stalled``, no rank is odd.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Literal

from hangtop.diagnosis.collectives.ends import cycle_of
from hangtop.diagnosis.collectives.progress import WaitEdge
from hangtop.diagnosis.waits.odd import OddRanks, Source, odd_ranks, threads_rest
from hangtop.diagnosis.waits.points import WaitPoint, by_frames, points_of, standing_part
from hangtop.diagnosis.waits.rank_status import WAITS, RankStatus, State, in_state

Pattern = Literal["held_up", "deadlock", "mismatch", "stalled", "unclear", "none"]
"""Shape of a wait graph.

``held_up``: a rank does not wait; ``deadlock``: sends and receives wait in a cycle; ``mismatch``: ranks wait in
different operations; ``stalled``: all ranks wait in one operation, or a sub-group does and the other ranks wait for the
sub-group; ``unclear``: all ranks with readable stacks wait, but some stacks could not be read; ``none``: no rank waits,
or most waits are seen to end and begin again.
"""

HARD: tuple[State, ...] = ("gone", "missing", "stopped", "uninterruptible")


@dataclass(frozen=True, slots=True)
class WaitGraph:
    """Ranks that wait, and the ranks at which their waits end."""

    pattern: Pattern
    waiters: tuple[RankStatus, ...]
    """Waiting ranks that are not culprits; empty if every rank is a culprit, as with one operation for all."""
    culprits: tuple[RankStatus, ...]
    points: tuple[WaitPoint, ...]
    """Where waiting ranks wait, the largest point first."""
    accused: tuple[WaitPoint, ...]
    """Points of the culprits, if the culprits wait, too."""
    held: float
    """Seconds for which the waiters were seen waiting without a break."""
    frozen: bool
    """Whether most waiters were seen standing still; False if they spin: CPU use cannot tell spinning from moving."""
    by: Source | None = None
    """The sign that sets waiting culprits apart from the waiters; None without a sign: then all ranks are named."""
    part: bool = False
    """Whether other ranks, for which no rank of this graph waits, still make progress."""


NO_WAITS = WaitGraph("none", (), (), (), (), 0.0, frozen=False)


def find_waits(statuses: Mapping[int, RankStatus], edges: Iterable[WaitEdge]) -> WaitGraph:
    """Find which rank waits for which.

    ``edges`` are the certain waits of one rank for others, from recorders, logs and frames.
    """
    among = standing_part(statuses, edges)
    waits, part = in_state(among, *WAITS), len(among) < len(statuses)
    still = sum(status.frozen is not False for status in waits)
    if not still or still * 2 < len(waits):
        return NO_WAITS
    odd = odd_ranks(points_of(waits))
    hard, working = in_state(among, *HARD), [*in_state(among, "working", "leaving"), *_not_launched(waits, odd)]
    if hard or working:
        culprits = sorted((*hard, *working), key=lambda status: status.rank)
        return _graph("held_up", waits, culprits, None, part=part)
    if in_state(among, "unseen"):
        return _graph("unclear", waits, (), None, part=part)
    pattern, ranks = _all_wait(waits, odd)
    culprits = [status for status in waits if status.rank in ranks]
    return _graph(pattern, waits, culprits, odd.by if odd is not None and pattern != "deadlock" else None, part=part)


def _graph(
    pattern: Pattern, waits: Sequence[RankStatus], culprits: Sequence[RankStatus], by: Source | None, *, part: bool
) -> WaitGraph:
    blamed = {status.rank for status in culprits}
    waiters = [status for status in waits if status.rank not in blamed]
    seen = [status for status in waiters or culprits if status.frozen is not False]
    held = median_low([status.held for status in seen]) if seen else 0.0
    accused: tuple[WaitPoint, ...] = ()
    if pattern not in ("held_up", "unclear"):
        accused = points_of(culprits)
        held = min(held, *(status.held for status in waits))  # a collective may end once its last rank has arrived
    points = sorted((*accused, *points_of(waiters)), key=lambda point: (-len(point.members), point.ranks))
    frozen = bool(seen) and 2 * sum(status.frozen is True for status in seen) > len(seen)
    return WaitGraph(pattern, tuple(waiters), tuple(culprits), tuple(points), accused, held, frozen, by, part)


def _not_launched(waits: Sequence[RankStatus], odd: OddRanks | None) -> list[RankStatus]:
    """Ranks that wait for an earlier kernel than all others do, as GPUs or network threads show.

    Also ranks elsewhere that wait for their GPU, if no figure shows what runs there: it may be their own kernels.
    """
    late = [status for status in waits if odd is not None and status.rank in odd.ranks]
    if odd is not None and odd.by in ("gpus", "threads"):
        before = all(status.kind == "device" and (status.load == "idle" or threads_rest(status)) for status in late)
    else:
        before = all(status.state == "on_gpu" and status.load == "unknown" for status in late)
    return [status._replace(state="on_gpu") for status in late] if before else []


def _all_wait(waits: Sequence[RankStatus], odd: OddRanks | None) -> tuple[Pattern, Collection[int]]:
    """Pattern and culprits of a job in which every rank waits."""
    points = points_of(waits)
    sends = [point for point in points if point.kind == "p2p"]
    if cycle := _cycle([member for point in sends for member in point.members], everybody=len(sends) == len(points)):
        return "deadlock", cycle
    if odd is None:
        # the kernel for which some ranks wait may be the collective in which the other ranks are
        together = len(points) == 1 or any(point.kind == "device" for point in points)
        return "stalled" if together else "mismatch", {status.rank for status in waits}
    accused = [point for point in points if odd.ranks.issuperset(point.ranks)]
    together = odd.by == "groups" and len(accused) == 1 and len(odd.ranks) > 1 and accused[0].kind != "p2p"
    return "stalled" if together else "mismatch", odd.ranks


def _cycle(members: Sequence[RankStatus], *, everybody: bool) -> set[int]:
    """Ranks whose sends and receives wait for one another in a cycle.

    Known peers give the cycle directly. Without any known peer, one case is certain: if every rank is in a plain
    receive, or every rank is in a plain send, no operation has a counterpart. A batched exchange has both halves. A
    send and its matching receive are no cycle, even if neither ends.
    """
    activities = {member.rank: member.activity for member in members if member.activity}
    if all(activity.peer is None for activity in activities.values()):
        sides = {activity.op for activity in activities.values()}
        return set(activities) if everybody and len(activities) > 1 and sides in ({"send"}, {"recv"}) else set()
    return cycle_of({edge.waiter: edge.for_ranks for edge in by_frames(members)})
