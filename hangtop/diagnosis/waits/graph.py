"""Who waits for whom: follow every wait to its end and find the ranks that hold the others up.

A rank that does not wait ends the chain: it is the culprit however few wait for it. Where all wait, the places decide:
ranks wait per group, so a wait in a sub-group ends before that of those who need both; peers of sends and receives
close cycles; else the minority is the odd one. Pure functions over the statuses of ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Literal

from hangtop.diagnosis.waits.odd_places import (
    PARTIES,
    at_other_roots,
    few_elsewhere,
    none_under_way,
    odd_points,
    of_all,
    rests_beside,
    went_on,
)
from hangtop.diagnosis.waits.peers import peers_awaited
from hangtop.diagnosis.waits.points import WaitPoint, point_of, points_of
from hangtop.diagnosis.waits.rank_status import RankStatus, State, in_state
from hangtop.diagnosis.waits.serving import serves

Pattern = Literal["held_up", "deadlock", "mismatch", "stuck_group", "stalled", "unclear"]
"""How a graph looks.

``held_up``: somebody does not wait; ``deadlock``: sends and receives wait in a circle; ``mismatch``: ranks wait at
different operations; ``stuck_group``: a sub-group waits in one operation, and the others wait for it; ``stalled``: all
wait in the same operation; ``unclear``: all that could be read wait, and some could not be.
"""

HARD: tuple[State, ...] = ("gone", "missing", "stopped", "uninterruptible", "refused")
JAX_BARRIER = "sync_global_devices"
PLAIN_HALVES = frozenset({"send", "recv"})
"""Operations that wait for one peer, each way."""


@dataclass(frozen=True, slots=True)
class WaitGraph:
    """Ranks that wait, and the end of their wait."""

    pattern: Pattern
    waiters: tuple[RankStatus, ...]
    """Those who wait and are not to blame. Empty in ``stalled``, where nobody is more to blame than another."""
    culprits: tuple[RankStatus, ...]
    points: tuple[WaitPoint, ...]
    """Where the ranks wait that wait, the largest first."""
    accused: tuple[WaitPoint, ...]
    """Points of the culprits, where culprits wait too."""
    held: float
    """Seconds for which the waiters were seen to wait without a break."""
    frozen: bool
    """The waiters were seen to stand still; False where they spin and cannot be told from moving by their CPU."""
    tied: bool = False
    """Nothing tells which of the points is the odd one."""
    by_threads: bool = False
    """Nothing but NCCL's threads tells which of the points is the odd one."""
    by_past: bool = False
    """Nothing but where ranks were met while the job went on does."""


def find_waits(statuses: Mapping[int, RankStatus]) -> WaitGraph | None:
    """Find who waits for whom in a job; None while nobody waits or the waits are seen to end and begin again."""
    waits = in_state(statuses, "waiting", "on_gpu")
    waiting = [status for status in waits if status.frozen is not False]
    if not waiting or len(waits) - len(waiting) > len(waiting):
        return None
    places = {point_of(one.activity) for one in waiting}  # one that woke for a moment waits with those beside it
    waiting = [one for one in waits if one.frozen is not False or point_of(one.activity) in places]
    empty = _empty_gpus(waiting) or _not_launched(waiting)
    aside = {status.rank for status in empty}
    waiting = [status for status in waiting if status.rank not in aside]
    points = points_of(waiting)
    hard = in_state(statuses, *HARD)
    working = [*in_state(statuses, "working", "leaving"), *empty]
    asked = [status for status in working if serves(status)]
    if asked and (hard or len(asked) < len(working)):  # what they wait for may be what one of the others is to send
        working = [status for status in working if status not in asked]
        waiting = sorted([*waiting, *asked], key=lambda status: status.rank)
    if hard or working:
        culprits = (*hard, *_least_moving(working, alone=not hard))
        return _graph("held_up", waiting, culprits, points_of(waiting), ())
    if in_state(statuses, "unseen"):
        return _graph("unclear", waiting, (), points, ())
    known = aside | {one.rank for one in waiting}
    waiting += [one for one in waits if one.rank not in known and _only_woke(one)]
    waiting.sort(key=lambda status: status.rank)
    points = points_of(waiting)
    # what all take part in may end since the last of them has come, not before
    graph = _all_wait(waiting, points)
    return replace(graph, held=min(graph.held, *(status.arrived for status in waits)))


def _only_woke(status: RankStatus) -> bool:
    """It woke now and then, and every look met it at the one place where it waits: it has gone nowhere."""
    return status.activity is not None and status.activity.moving is False


def _empty_gpus(waiting: Sequence[RankStatus]) -> list[RankStatus]:
    """Of ranks that wait for their own GPU, those whose GPU has nothing to do while those of most others are full.

    The others wait in a kernel that this one has not launched.
    """
    empty = [one for one in waiting if one.state == "on_gpu" and one.load == "idle"]
    full = sum(one.load == "spinning" for one in waiting)
    return empty if empty and full * 2 > len(waiting) else []


def _not_launched(waiting: Sequence[RankStatus]) -> list[RankStatus]:
    """The one that waits for its own GPU at a line of its own, and has nothing under way in the network as all others.

    Its GPU is in a kernel before the one that they wait in.
    """
    apart = none_under_way(waiting)
    if apart is None or apart.activity is None or apart.activity.kind != "device" or not apart.activity.where:
        return []
    alone = all(one.where != apart.where for one in waiting if one is not apart)
    return [apart._replace(state="on_gpu")] if alone else []


def _least_moving(working: Sequence[RankStatus], *, alone: bool) -> list[RankStatus]:
    """Of those who do not wait, the ones that stand still; when none does and nobody else is to blame, all of them."""
    still = [status for status in working if status.frozen is not False or loops(status)]
    leaving = [status for status in working if status.state == "leaving"]
    return still or leaving or (list(working) if alone else [])


def loops(status: RankStatus) -> bool:
    """True when every look found it in one function of the user's, and in nothing that is called from it."""
    readings = status.readings
    functions = {(reading.frame.name, reading.frame.file) for reading in readings if reading.frame}
    own_code = all(reading.kind == "code" and reading.frame for reading in readings)
    return len(readings) > 1 and len(functions) == 1 and own_code


def _all_wait(waiting: list[RankStatus], points: tuple[WaitPoint, ...]) -> WaitGraph:
    sends = [point for point in points if point.kind == "p2p"]
    circle = _circle([member for point in sends for member in point.members], everybody=len(sends) == len(points))
    if circle:
        return _split("deadlock", waiting, points, sends, circle)
    if any(point.kind == "device" for point in points):
        return _beside_gpus(waiting, points)
    if len(points) == 1:
        return _graph("stalled", (), waiting, points, points)
    rooted, open_ended = at_other_roots(points)
    if rooted:
        graph = _split("mismatch", waiting, points, rooted, {rank for point in rooted for rank in point.ranks})
        return replace(graph, tied=open_ended)
    inner = [point for point in points if point.inner]
    inside = sum(len(point.members) for point in inner)
    outer = [point for point in points if of_all(point)]
    if went_on(outer, [point for point in points if point not in outer]):
        return _split("mismatch", waiting, points, outer, {rank for point in outer for rank in point.ranks})
    if inside * 2 == len(waiting) and all(_begun_before(point) for point in inner):
        # half of them wait in exchanges, most likely for one that left them for what the others are in
        graph = _split("mismatch", waiting, points, points, {status.rank for status in waiting})
        return replace(graph, tied=True)
    if inner and inside * 2 <= len(waiting):
        together = len(inner) == 1 and inside > 1 and inner[0].kind != "p2p"
        pattern: Pattern = "stuck_group" if together else "mismatch"
        return _split(pattern, waiting, points, inner, {rank for point in inner for rank in point.ranks})
    if inner and outer and len(inner) + len(outer) == len(points):
        # most wait in groups of theirs for those who went on to an operation of the whole job
        return _split("mismatch", waiting, points, outer, {rank for point in outer for rank in point.ranks})
    accused, tied = odd_points(points)
    graph = _split("mismatch", waiting, points, accused, {rank for point in accused for rank in point.ranks})
    return replace(graph, tied=tied)


def _begun_before(point: WaitPoint) -> bool:
    """Its members wait for a send or a receive that they began before, with whom nothing tells."""
    doing = [member.activity for member in point.members if member.activity is not None]
    return point.kind == "p2p" and all(
        one.peer is None and one.decided_by is not None and one.decided_by.native for one in doing
    )


def _beside_gpus(waiting: list[RankStatus], points: tuple[WaitPoint, ...]) -> WaitGraph:
    """All wait, some of them for their own GPU: that kernel may be the very collective that the others are in.

    So nobody is odd for being at another line, except where the GPUs contradict, full ones among empty ones, or what
    NCCL has under way: who is in a collective at a line of its own, with nothing in the network, left the others' one.
    So did a few in a barrier called from another function than that in which all others wait for their GPUs: on their
    way there the same wait would have held them. Of few that wait for GPUs while most are in a barrier that is waited
    for. And a few may wait for their GPUs in a function that no other is in.
    """
    on_gpu = next(point for point in points if point.kind == "device")
    others = [one for one in waiting if one not in on_gpu.members]
    full = all(one.load == "spinning" for one in on_gpu.members)
    beside = [point for point in points if point is not on_gpu]
    empty, rest = all(one.load == "idle" for one in others), _all_call(beside) and rests_beside(others, on_gpu.members)
    if others and full and (empty or rest):
        few = [on_gpu] if len(on_gpu.members) * 2 < len(waiting) else beside
        graph = _split("mismatch", waiting, points, few, {rank for point in few for rank in point.ranks})
        return graph if empty else replace(graph, by_threads=True)
    apart = none_under_way(waiting)
    alone = [point for point in points if point.kind == "collective" and point.ranks == (apart.rank if apart else -1,)]
    if apart is not None and alone and apart.where not in {one.where for one in waiting if one is not apart}:
        return replace(_split("mismatch", waiting, points, alone, {apart.rank}), by_threads=True)
    left = [point for point in beside if point.path != on_gpu.path]
    if _in_its_loop(beside, on_gpu) and _elsewhere(left, on_gpu):
        gone = {rank for point in left for rank in point.ranks}
        if len(gone) * 2 < len(waiting):
            return _split("mismatch", waiting, points, left, gone)
    if _elsewhere(beside, on_gpu) and len(others) * 2 != len(waiting):
        few = beside if len(others) * 2 < len(waiting) else [on_gpu]
        return _split("mismatch", waiting, points, few, {rank for point in few for rank in point.ranks})
    told = None if others else few_elsewhere(on_gpu)
    if told is not None:
        return _split("mismatch", waiting, told[::-1], told[:1], set(told[0].ranks))
    return _graph("stalled", (), waiting, points, points)


def _all_call(points: Sequence[WaitPoint]) -> bool:
    """All of these are in collectives that their program waits for. Two ranks that send make a communicator first."""
    return bool(points) and all(point.kind == "collective" for point in points)


def _elsewhere(points: Sequence[WaitPoint], on_gpu: WaitPoint) -> bool:
    """All are in barriers, and none in a function in which the others wait for their GPUs, all at one line of it.

    Any other over NCCL is but launched: who is found in one waits behind it for its GPU, as the others do. Who sleeps
    in one waits over the CPU, for the others to come. Of one rank alone the others may be stages at a few lines.
    """
    lines, paths = ({each(one) for one in on_gpu.members} for each in (lambda one: one.where, _path))
    held = bool(points) and all(_holds(point) for point in points)
    alone = sum(len(point.members) for point in points) == 1 < len(on_gpu.members) - 1
    return held and len(lines) <= (PARTIES if alone else 1) and all(point.path not in paths for point in points)


def _path(status: RankStatus) -> tuple[str, ...]:
    return WaitPoint("device", "", "", False, (status,)).path


def _in_its_loop(points: Sequence[WaitPoint], on_gpu: WaitPoint) -> bool:
    """Some are at sends and receives in the very function in which others wait for their GPUs: stages of one loop."""
    beside = [point for point in points if point.path == on_gpu.path]
    return bool(beside) and all(point.kind == "p2p" for point in beside)


def _holds(point: WaitPoint) -> bool:
    """Nobody leaves this operation before all have come to it."""
    sleeps = point.kind == "collective" and all(one.frozen is True and one.blocked for one in point.members)
    return sleeps or "barrier" in point.op or point.op == JAX_BARRIER


def _split(
    pattern: Pattern,
    waiting: list[RankStatus],
    points: tuple[WaitPoint, ...],
    accused: Iterable[WaitPoint],
    ranks: set[int],
) -> WaitGraph:
    waiters = [status for status in waiting if status.rank not in ranks]
    culprits = [status for status in waiting if status.rank in ranks]
    return _graph(pattern, waiters, culprits, points, tuple(accused))


def _graph(
    pattern: Pattern,
    waiters: Sequence[RankStatus],
    culprits: Sequence[RankStatus],
    points: tuple[WaitPoint, ...],
    accused: tuple[WaitPoint, ...],
) -> WaitGraph:
    measured = [
        one for one in waiters or culprits if one.frozen is not False and (one.readings or one.load != "unknown")
    ]
    held = median_low([status.held for status in measured]) if measured else 0.0
    frozen = bool(measured) and 2 * sum(status.frozen is True for status in measured) > len(measured)
    return WaitGraph(pattern, tuple(waiters), tuple(culprits), points, accused, held, frozen)


def _circle(members: Sequence[RankStatus], *, everybody: bool) -> set[int]:
    """Ranks whose sends and receives wait for one another in a circle.

    With the peers known, the circle is followed. With none known there is one circle that can be told: where everybody
    who is there only receives, or only sends, one plain operation each, nobody can be served. A batched exchange has
    both halves, and a send that meets its receive is no circle, even when neither ends.
    """
    doing = {member.rank: member.activity for member in members if member.activity}
    if all(own.peer is None for own in doing.values()):
        sides = {own.op for own in doing.values()}
        return set(doing) if everybody and len(doing) > 1 and len(sides) == 1 and sides <= PLAIN_HALVES else set()
    waits_for = peers_awaited(members)
    found: set[int] = set()
    for start in waits_for:
        path = [start]
        while (after := waits_for.get(path[-1])) is not None and after not in path:
            path.append(after)
        if after is not None:
            found.update(path[path.index(after) :])
    return found
