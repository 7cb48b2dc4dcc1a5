"""Of ranks that all wait, those at a place of their own: by operations, by lines, by what NCCL has under way.

NCCL's proxy progress thread never sleeps while an operation over the network is under way, and sleeps on a condition
without one (``src/proxy.cc`` of NVIDIA/nccl). On an H200 with NCCL 2.28.9 it used 0.99 to 1.01 cores, a third of them
in user mode, in every rank that had launched a collective over sockets, and none in the one that had not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence

from hangtop.diagnosis.waits.points import WaitPoint
from hangtop.diagnosis.waits.rank_status import RankStatus


def of_all(point: WaitPoint) -> bool:
    """Its frames say that the operation is one of the whole job's."""
    return all(member.activity is not None and member.activity.world is True for member in point.members)


def went_on(outer: Sequence[WaitPoint], others: Sequence[WaitPoint]) -> bool:
    """A few are in an operation of the whole job, while all others are at one other line, in whatever it calls."""
    lines = {member.where for point in others for member in point.members}
    few = sum(len(point.members) for point in outer) < sum(len(point.members) for point in others)
    return bool(outer) and few and len(lines) == 1 and lines.isdisjoint(m.where for p in outer for m in p.members)


def at_other_roots(points: Sequence[WaitPoint]) -> tuple[list[WaitPoint], bool]:
    """Those who are in one operation at one line, and each party for another root, and whether it is open who erred.

    Of these the smaller ones: who was through with its part of that has gone on, be it one or most. Who is itself the
    root of the others may have been through with that, and have come to the next of a loop over all roots.
    """
    alike: dict[tuple[str, str, str], list[WaitPoint]] = defaultdict(list)
    for point in points:
        if point.root is not None:
            alike[point.kind, point.op, point.place].append(point)
    parties = next((found for found in alike.values() if len(found) > 1), [])
    largest = max((len(point.members) for point in parties), default=0)
    roots = {point.root for point in parties if len(point.members) == largest}
    fewer = [point for point in parties if len(point.members) < largest]
    if not fewer or any(set(point.ranks) <= roots for point in fewer):
        return parties, True
    return fewer, False


def odd_points(points: tuple[WaitPoint, ...]) -> tuple[list[WaitPoint], bool]:
    """Choose the points to accuse by how few are there, and tell whether that was undecided.

    Ranks in the same function of the program are in one loop, at most an operation apart; those in another function
    left it. So functions are counted first, and places within them only where all are in one.
    """
    by_path: dict[tuple[str, ...], list[WaitPoint]] = defaultdict(list)
    for point in points:
        by_path[point.path].append(point)
    groups = list(by_path.values()) if len(by_path) > 1 else [[point] for point in points]
    sizes = [sum(len(point.members) for point in group) for group in groups]
    largest = max(sizes)
    odd = [point for group, size in zip(groups, sizes, strict=True) if size < largest for point in group]
    if not odd or sizes.count(largest) > 1:
        return list(points), True
    return odd, False


FULL_QUEUE = "queue of kernels is full"
"""In the label of a wait that any line of the program may meet, wherever the program is held up."""
ALONE = ("evaluation", "checkpoint")
PARTIES = 3
"""Lines that are told at the most; ranks at more of them wait in no order that says anything."""


def by_line(on_gpu: WaitPoint) -> tuple[WaitPoint, ...]:
    """The members by the line of their own program at which they wait, the largest party first.

    Empty where that says nothing: all are at one line, somebody's frames were not seen, or a launch queue is full.
    """
    parties = _parties(on_gpu, lambda one: one.where)
    return parties if 1 < len(parties) <= PARTIES else ()


def few_elsewhere(on_gpu: WaitPoint) -> tuple[WaitPoint, WaitPoint] | None:
    """Those who wait in another function than all others, who are at one line of it, and more; and these others.

    A program that all ranks run has them wait for their GPUs at the same lines: whoever does so elsewhere took a branch
    that the others did not, or left the loop. Rank 0 alone is none of these: it often asks for a figure to print, and
    waits there for what the others wait in. Unless it evaluates or saves by itself, with a module that all must call.
    """
    parties = _parties(on_gpu, _path)
    if len(parties) != 2 or len({one.where for one in parties[0].members}) != 1:
        return None
    most, few = parties
    if {_inner(one) for one in few.members} & {_inner(one) for one in most.members}:
        return None  # stages of a pipeline come to one function that sends and receives, on different ways
    if few.ranks == (0,) and not (_turns(few) - _turns(most)):
        return None
    return (few, most) if len(few.members) < len(most.members) else None


def _turns(point: WaitPoint) -> frozenset[str]:
    """What of the job that rank 0 likes to do alone all of these are at."""
    told = (one.activity.context if one.activity is not None else frozenset[str]() for one in point.members)
    return frozenset(ALONE).intersection(*told)


def _parties(on_gpu: WaitPoint, key: Callable[[RankStatus], Hashable]) -> tuple[WaitPoint, ...]:
    if not all(_told(one) for one in on_gpu.members):
        return ()
    groups: dict[Hashable, list[RankStatus]] = defaultdict(list)
    for one in on_gpu.members:
        groups[key(one)].append(one)
    return tuple(sorted(map(_point, groups.values()), key=lambda point: (-len(point.members), point.ranks)))


def _point(members: Sequence[RankStatus]) -> WaitPoint:
    return WaitPoint("device", "", "", False, tuple(members))


def _inner(status: RankStatus) -> str:
    return status.where.partition(" ")[0]


def _path(status: RankStatus) -> Hashable:
    return _point((status,)).path


def _told(status: RankStatus) -> bool:
    doing = status.activity
    return status.seen and doing is not None and bool(doing.where) and FULL_QUEUE not in doing.label


UNDER_WAY = 0.7
"""Cores that threads beside the main one use at the least, where one of them is NCCL's and has something to do."""
TWO = 1.7
"""The same where two of NCCL's never sleep: a communicator has one each. On that H200 it was 2.0 in all ranks of a job
whose ranks called collectives of two groups in another order, and 1.0 where all waited for any other reason."""
PAUSED = 0.5
"""As :data:`UNDER_WAY`, where a look may have stopped the process for a part of the time."""
AT_REST = 0.1
"""Cores that they use at the most where all of them sleep."""
ENOUGH = 3
"""Ranks among which one can be unlike the others."""
BY_THREADS = 0.72
"""Most weight where the threads of NCCL decide who is odd: ranks of one node need none of them for one another."""
NOT_LAUNCHED = (
    "It has not launched what the others wait in, or waits for ranks of its own node: look at what its GPU does (the "
    "kernel before that, Xid lines, power), and at its stack."
)


def none_under_way(waiting: Sequence[RankStatus]) -> RankStatus | None:
    """The one rank that has nothing under way in the network while all others have; None where there is no such.

    It has not launched what the others wait in, or waits for ranks of its own node alone: NVLink needs no such thread.
    A rank whose own main thread does not spin tells nothing: in a backward pass another thread waits for the GPU.
    """
    resting: RankStatus | None = None
    for one in waiting:  # no further than it takes: the past of each is kept packed
        cores = one.motion.threads if one.motion.busy else None
        if cores is None or AT_REST < cores < UNDER_WAY or (cores <= AT_REST and resting is not None):
            return None
        if cores <= AT_REST:
            resting = one
    return resting if len(waiting) >= ENOUGH else None


def two_under_way(waiting: Sequence[RankStatus]) -> bool:
    """Whether every one of these has operations of two communicators under way in the network, and none ends."""
    return len(waiting) > 1 and all(one.motion.busy and (one.motion.threads or 0.0) >= TWO for one in waiting)


def rests_beside(these: Sequence[RankStatus], others: Sequence[RankStatus]) -> bool:
    """True where all the others have something under way in the network, and none of these has.

    Whoever of these waits by another library than NCCL sleeps meanwhile, in all its threads.
    """
    rest = all((cores := one.motion.threads) is not None and cores <= AT_REST for one in these)
    return rest and all((cores := one.motion.threads) is not None and cores >= PAUSED for one in others)


def in_a_kernel(status: RankStatus) -> bool:
    """True for who holds others up by its GPU, which is full of something that is not the others' collective."""
    return status.state == "on_gpu" and status.load == "spinning"
