"""Who waits for whom: follow every wait to its end and find the ranks that hold the others up.

A rank that does not wait ends the chain: it is the culprit however few wait for it. Where all wait, the places decide:
sends and receives may close a circle; an operation of a sub-group ends before one that needs all; else the minority is
odd. Pure functions over the statuses of ranks.

Example: ranks 0, 1 and 3 are in ``all_reduce``, rank 2 reads a file: ``held_up``, culprit 2. If rank 2 is in a
``barrier`` instead: ``mismatch``, culprit 2. If all four are in the same ``all_reduce``: ``stalled``, nobody is odd.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Literal

from hangtop.diagnosis.stacks.states import Meaning
from hangtop.diagnosis.tables.thresholds import BUSY_CORES
from hangtop.diagnosis.waits.points import Awaited, WaitPoint, path_of, peers_awaited, points_of, standing_part
from hangtop.diagnosis.waits.rank_status import RankStatus, State, in_state

Pattern = Literal["held_up", "deadlock", "mismatch", "stuck_group", "stalled", "unclear"]
"""How a graph looks.

``held_up``: somebody does not wait; ``deadlock``: sends and receives wait in a circle; ``mismatch``: ranks wait at
different operations; ``stuck_group``: a sub-group waits in one operation, and the others wait for it; ``stalled``: all
wait in the same operation; ``unclear``: all that could be read wait, and some could not be.
"""
Source = Literal["", "gpus", "threads", "groups", "operations", "lines"]
"""What sets the culprits of a mismatch apart: what their GPUs do, NCCL's network threads, that an operation of a
sub-group ends before one of all, the operation or function that they are in, or only the line at which they wait for
their GPUs."""

HARD: tuple[State, ...] = ("gone", "missing", "stopped", "uninterruptible")
PLAIN_HALVES = frozenset({"send", "recv"})
"""Operations that wait for one peer, each way."""
BARRIERS = ("barrier", "monitored_barrier", "sync_global_devices")
"""Operations that nobody leaves before all have come to it."""
DONE_ALONE = frozenset({"evaluation", "checkpoint"})
"""What rank 0 likes to do alone, though the module that it calls needs all ranks."""
AT_REST = 0.1
"""Cores that the threads of a rank beside its main one use at the most while they all sleep."""
ENOUGH = 3
"""Ranks among which one can be unlike the others."""
LINES = 3
"""Lines at which the others may wait where one rank alone is elsewhere: at more they wait in no order that tells."""


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
    by: Source = ""
    tied: bool = False
    """Nothing tells which of the points is the odd one."""
    part: bool = False
    """Ranks that none of these wait for go on."""


def find_waits(statuses: Mapping[int, RankStatus], awaited: Callable[[], Awaited]) -> WaitGraph | None:
    """Find who waits for whom in a job; None while nobody waits or the waits are seen to end and begin again.

    ``awaited`` tells for which ranks a rank waits, by recorders, logs and frames; it is asked where some ranks go on.
    """
    part = standing_part(statuses, awaited)
    graph = _graph_of(part)
    return graph if graph is None or len(part) == len(statuses) else replace(graph, part=True)


def _graph_of(statuses: Mapping[int, RankStatus]) -> WaitGraph | None:
    waits = in_state(statuses, "waiting", "on_gpu")
    still = sum(one.frozen is not False for one in waits)
    if not still or still * 2 < len(waits):
        return None
    behind = _not_launched(waits)
    late = {one.rank for one in behind}
    waiting = [one for one in waits if one.rank not in late]
    hard = in_state(statuses, *HARD)
    working = [*in_state(statuses, "working", "leaving"), *behind]
    if hard or working:
        culprits = sorted((*hard, *_least_moving(working, alone=not hard)), key=lambda one: one.rank)
        return _graph("held_up", waiting, culprits, points_of(waiting))
    if in_state(statuses, "unseen"):
        return _graph("unclear", waiting, (), points_of(waiting))
    graph = _all_wait(waiting, points_of(waiting))
    # what all take part in may end since the last of them has come, not before
    return replace(graph, held=min(graph.held, *(one.held for one in waits)))


def _not_launched(waiting: Sequence[RankStatus]) -> list[RankStatus]:
    """Ranks that wait for a kernel before the one that all others wait in.

    Their GPUs have nothing to do while those of most others are full; or one rank waits for its GPU at a line of its
    own, and its other threads rest: NCCL's, which never sleep while an operation over the network is under way, are
    busy in all other ranks.
    """
    empty = [one for one in waiting if one.state == "on_gpu" and one.load == "idle"]
    if empty and sum(one.load == "spinning" for one in waiting) * 2 > len(waiting):
        return empty
    resting = [one for one in waiting if not _network_works(one)]
    if len(waiting) < ENOUGH or len(resting) != 1 or not all(one.motion.busy for one in waiting):
        return []
    apart, doing = resting[0], resting[0].activity
    alone = apart.where and all(one is apart or one.where != apart.where for one in waiting)
    held = _network_rests(apart) and doing is not None and doing.kind == "device"
    return [apart._replace(state="on_gpu")] if held and alone else []


def _network_rests(one: RankStatus) -> bool:
    """NCCL's threads of a rank, which never sleep while an operation over the network is under way, do."""
    return one.motion.threads is not None and one.motion.threads <= AT_REST


def _network_works(one: RankStatus) -> bool:
    return (one.motion.threads or 0.0) >= BUSY_CORES


def _least_moving(working: Sequence[RankStatus], *, alone: bool) -> list[RankStatus]:
    """Of ranks that do not wait, those that stand still; when none does and nobody else is to blame, all of them."""
    still = [status for status in working if status.frozen is not False]
    return still or (list(working) if alone else [])


def _all_wait(waiting: Sequence[RankStatus], points: tuple[WaitPoint, ...]) -> WaitGraph:
    sends = [point for point in points if point.kind == "p2p"]
    circle = _circle([member for point in sends for member in point.members], everybody=len(sends) == len(points))
    if circle:
        return _split("deadlock", waiting, points, sends, circle)
    if any(point.kind == "device" for point in points):
        return _beside_gpus(waiting, points)
    if len(points) == 1:
        return _graph("stalled", (), waiting, points, points)
    inner = [point for point in points if point.inner]
    outer = [point for point in points if point.world]
    rest = [point for point in points if not point.world]
    inside = sum(len(point.members) for point in inner)
    left_one_line = len({point.where for point in rest}) == 1 and {p.where for p in outer}.isdisjoint({rest[0].where})
    if outer and left_one_line and sum(len(point.members) for point in outer) * 2 < len(waiting):
        return _split("mismatch", waiting, points, outer, by="operations")
    if inner and inside * 2 <= len(waiting):
        together = len(inner) == 1 and inside > 1 and inner[0].kind != "p2p"
        return _split("stuck_group" if together else "mismatch", waiting, points, inner, by="groups")
    if inner and outer and len(inner) == len(rest):
        # most wait in groups of theirs for those who went on to an operation of the whole job
        return _split("mismatch", waiting, points, outer, by="groups")
    accused = _fewest(points)
    return _split("mismatch", waiting, points, accused or points, by="operations", tied=not accused)


def _fewest(points: Sequence[WaitPoint]) -> list[WaitPoint]:
    """The points to accuse by how few ranks are there; empty where that is undecided.

    Ranks in the same function of the program are in one loop, at most an operation apart; those in another function
    left it. So functions are counted first, and places within them only where all are in one.
    """
    by_path: dict[tuple[str, ...], list[WaitPoint]] = defaultdict(list)
    for point in points:
        by_path[path_of(point.members[0])].append(point)
    groups = list(by_path.values()) if len(by_path) > 1 else [[point] for point in points]
    sizes = [sum(len(point.members) for point in group) for group in groups]
    if sizes.count(max(sizes)) > 1:
        return []
    return [point for group, size in zip(groups, sizes, strict=True) if size < max(sizes) for point in group]


def _beside_gpus(waiting: Sequence[RankStatus], points: tuple[WaitPoint, ...]) -> WaitGraph:
    """All wait, some of them for their own GPU: that kernel may be the very collective that the others are in.

    So no rank is odd for being at another line, except where the GPUs contradict that, or the network threads, or where
    a minority is in another function than all others (:func:`_elsewhere`).
    """
    on_gpu = next(point for point in points if point.kind == "device")
    others = [one for one in waiting if one not in on_gpu.members]
    if others and all(one.load == "spinning" for one in on_gpu.members):
        fewer = [on_gpu] if len(on_gpu.members) * 2 < len(waiting) else [one for one in points if one is not on_gpu]
        if all(one.load == "idle" for one in others):
            return _split("mismatch", waiting, points, fewer, by="gpus")
        collectives = all(point.kind == "collective" for point in points if point is not on_gpu)
        if collectives and all(map(_network_rests, others)) and all(map(_network_works, on_gpu.members)):
            return _split("mismatch", waiting, points, fewer, by="threads")
    few = {one.rank for one in _elsewhere(waiting, on_gpu.members)}
    if not few:
        return _graph("stalled", (), waiting, points, points)
    if others:
        accused = [point for point in points if point.ranks[0] in few]
        return _split("mismatch", waiting, points, accused, by="operations")
    parties = [tuple(one for one in waiting if (one.rank in few) is odd) for odd in (False, True)]
    split = tuple(WaitPoint("device", "", "", False, party) for party in parties)
    return _split("mismatch", waiting, split, split[1:], by="lines")


def _elsewhere(waiting: Sequence[RankStatus], on_gpu: Sequence[RankStatus]) -> Sequence[RankStatus]:
    """The few ranks that wait in another function of the program than all others, which are at one line.

    A program that all ranks run has them wait for their GPUs at the same lines: a rank that does so elsewhere took a
    branch that the others did not, or left the loop. An operation over NCCL is but launched: a rank that is found in
    one waits behind it for its GPU as the others do, unless it is a barrier, or the rank sleeps in it over the CPU.
    """
    others = [one for one in waiting if one not in on_gpu]
    if others:
        apart = {path_of(one) for one in others}.isdisjoint(path_of(one) for one in on_gpu)
        lines = LINES if len(others) == 1 < len(on_gpu) - 1 else 1
        few = min((others, on_gpu), key=len)
        told = apart and all(map(_holds, others)) and len({one.where for one in on_gpu}) <= lines
        return few if told and len(few) * 2 != len(waiting) else ()
    parties: dict[tuple[str, ...], list[RankStatus]] = defaultdict(list)
    for one in waiting:
        if not one.seen or not one.where or (one.activity and one.activity.meaning is Meaning.GPU_QUEUE_FULL):
            return ()  # any line of the program may meet a full queue
        parties[path_of(one)].append(one)
    few, most = sorted(parties.values(), key=len) if len(parties) == 2 else ([], [])
    functions = [{one.where.partition(" ")[0] for one in party} for party in (few, most)]
    if len(few) == len(most) or len({one.where for one in most}) != 1 or functions[0] & functions[1]:
        return ()  # stages of a pipeline come to one function that sends and receives, on different ways
    # rank 0 often asks for a figure to print, and waits there for what the others wait in
    alone = (_phases(few) - _phases(most)) & DONE_ALONE
    return () if [one.rank for one in few] == [0] and not alone else few


def _holds(one: RankStatus) -> bool:
    """Whether a rank is in a barrier, at a store, or sleeps in a collective until the others come."""
    doing = one.activity
    if doing is None or doing.kind not in ("collective", "store"):
        return False
    return doing.op in BARRIERS or doing.kind == "store" or (one.frozen is True and one.motion.blocked)


def _phases(party: Sequence[RankStatus]) -> set[str]:
    return {phase for one in party if one.activity is not None for phase in one.activity.context}


def _split(
    pattern: Pattern,
    waiting: Sequence[RankStatus],
    points: tuple[WaitPoint, ...],
    accused: Sequence[WaitPoint],
    ranks: set[int] | None = None,
    *,
    by: Source = "",
    tied: bool = False,
) -> WaitGraph:
    """Blame these ranks, or all of the accused points, for the wait of the others."""
    blamed = {rank for point in accused for rank in point.ranks} if ranks is None else ranks
    waiters = [status for status in waiting if status.rank not in blamed]
    culprits = [status for status in waiting if status.rank in blamed]
    return replace(_graph(pattern, waiters, culprits, points, tuple(accused)), by=by, tied=tied)


def _graph(
    pattern: Pattern,
    waiters: Sequence[RankStatus],
    culprits: Sequence[RankStatus],
    points: tuple[WaitPoint, ...],
    accused: tuple[WaitPoint, ...] = (),
) -> WaitGraph:
    seen = [one for one in waiters or culprits if one.frozen is not False and (one.readings or one.load != "unknown")]
    held = median_low([status.held for status in seen]) if seen else 0.0
    frozen = bool(seen) and 2 * sum(status.frozen is True for status in seen) > len(seen)
    return WaitGraph(pattern, tuple(waiters), tuple(culprits), points, accused, held, frozen)


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
    waits_for = peers_awaited(members)
    found: set[int] = set()
    for start in waits_for:
        path = [start]
        while (after := waits_for.get(path[-1])) is not None and after not in path:
            path.append(after)
        if after is not None:
            found.update(path[path.index(after) :])
    return found
