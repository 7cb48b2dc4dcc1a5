"""Where every rank waits: the few ranks that are at another point of the program than all others.

Each sign below parts the ranks into a crowd and the odd ones by one kind of evidence, or says nothing. Signs that agree
on the odd ranks add up; the ranks with the best support are odd, and without support nobody is.

Example: ranks 0 to 2 spin at ``all_reduce``, their GPUs full; rank 3 is in a ``barrier`` at another line, its GPU idle:
the GPUs, the operations and the lines each set rank 3 apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Literal, NamedTuple

from hangtop.diagnosis.stacks.states import Kind, Meaning, Phase
from hangtop.diagnosis.tables.thresholds import BUSY_CORES
from hangtop.diagnosis.waits.points import WaitPoint
from hangtop.diagnosis.waits.rank_status import RankStatus

Source = Literal["gpus", "threads", "groups", "operations", "lines"]
"""What sets the odd ranks apart: what their GPUs do, NCCL's network threads, that an operation of a sub-group ends
before one of all, the operation or line that they are in, or only the function in which they wait for their GPUs."""

BARRIERS = ("barrier", "monitored_barrier", "sync_global_devices")
"""Operations that nobody leaves before all have come to it."""
DONE_ALONE = frozenset({"evaluation", "checkpoint"})
"""What rank 0 likes to do alone, though what it calls needs all ranks."""
AT_REST = 0.1
"""Cores that the threads of a rank beside its main one use at the most while they all sleep."""


class OddRanks(NamedTuple):
    """The odd ranks, and the first sign that sets them apart."""

    ranks: frozenset[int]
    by: Source


def odd_ranks(points: Sequence[WaitPoint]) -> OddRanks | None:
    """The ranks at another point of the program that the most evidence sets apart; None where no evidence does."""
    support: dict[frozenset[int], int] = defaultdict(int)
    first: dict[frozenset[int], Source] = {}
    for sign in SIGNS:
        if odd := sign.odd_of(points):
            support[odd] += sign.weight
            first.setdefault(odd, sign.source)
    best = max(support, key=lambda odd: support[odd], default=None)
    return None if best is None else OddRanks(best, first[best])


def _outside(points: Sequence[WaitPoint], class_of: Callable[[RankStatus], Hashable]) -> frozenset[int]:
    """The ranks that are not of the class to which more than half of all ranks belong; empty without such a class."""
    classes: dict[Hashable, set[int]] = defaultdict(set)
    for one in _members(points):
        classes[class_of(one)].add(one.rank)
    every = frozenset[int]().union(*classes.values())
    crowd = max(classes.values(), key=len)
    return every - crowd if 2 * len(crowd) > len(every) else frozenset()


def _members(points: Sequence[WaitPoint]) -> list[RankStatus]:
    return [one for point in points for one in point.members]


def _parted(points: Sequence[WaitPoint], odd: frozenset[int]) -> tuple[list[RankStatus], list[RankStatus]]:
    """The statuses of the odd ranks, and of the others."""
    members = _members(points)
    return [one for one in members if one.rank in odd], [one for one in members if one.rank not in odd]


def _at_other_lines(points: Sequence[WaitPoint], odd: frozenset[int]) -> bool:
    """No odd rank is at a line at which another rank is: ranks at one line are in one place."""
    few, most = _parted(points, odd)
    return {one.where for one in few}.isdisjoint(one.where for one in most)


# --- the signs ---------------------------------------------------------------------------------------------------


def _load(points: Sequence[WaitPoint]) -> frozenset[int]:
    """GPUs that idle among those in which a collective's kernel spins."""
    odd = _outside(points, lambda one: one.load)
    few, most = _parted(points, odd)
    told = {one.load for one in few} == {"idle"} and {one.load for one in most} == {"spinning"}
    apart = all(one.state == "on_gpu" for one in few) or _at_other_lines(points, odd)
    return odd if told and apart else frozenset()


def _network_threads(points: Sequence[WaitPoint]) -> frozenset[int]:
    """NCCL's threads, which never sleep while an operation over the network is under way, rest in some ranks alone.

    Those of ranks that wait for their GPUs are at work in all others. The ranks at rest are in a collective that goes
    over the CPU, or the few of them wait for a kernel before the one that the others wait in.
    """
    few, most = _parted(points, odd := _outside(points, threads_of))
    rests, works = (few, most) if any(threads_of(one) == "at rest" for one in few) else (most, few)
    told = {threads_of(one) for one in rests} == {"at rest"} and {threads_of(one) for one in works} == {"at work"}
    before = all(kind_of(one) == "collective" or (kind_of(one) == "device" and rests is few) for one in rests)
    on_gpu = all(kind_of(one) == "device" for one in works)
    return odd if told and before and on_gpu and _at_other_lines(points, odd) else frozenset()


def threads_of(one: RankStatus) -> str:
    """What the threads beside the main one do, NCCL's among them, of a rank that spins: ``at rest`` or ``at work``."""
    cores = one.motion.threads
    if cores is None or not one.motion.busy:
        return "unknown"
    return "at rest" if cores <= AT_REST else "at work" if cores >= BUSY_CORES else "unknown"


def _sub_group(points: Sequence[WaitPoint]) -> frozenset[int]:
    """Operations of groups that are smaller than the job end before one that needs all ranks."""
    odd = frozenset(rank for point in points if point.inner for rank in point.ranks)
    told = _frames_tell(points) and 2 * len(odd) <= len(_members(points)) and _at_other_lines(points, odd)
    return odd if told else frozenset()


def _whole_job(points: Sequence[WaitPoint]) -> frozenset[int]:
    """A few ranks went on to an operation of all, for which those wait who are in groups of theirs, or at one line."""
    outer, rest = ([point for point in points if point.world is world] for world in (True, False))
    odd = frozenset(rank for point in outer for rank in point.ranks)
    together = all(point.inner for point in rest) or len({point.where for point in rest}) == 1
    told = together and _at_other_lines(points, odd) and 2 * len(odd) < len(_members(points))
    return odd if told and _frames_tell(points) else frozenset()


def _operation(points: Sequence[WaitPoint]) -> frozenset[int]:
    """Another operation than that of more than half of the ranks.

    A rank beside those that wait for their GPUs must be in another function: it may be at the next line of theirs.
    """
    point_of = {rank: number for number, point in enumerate(points) for rank in point.ranks}
    odd = _outside(points, lambda one: point_of[one.rank])
    few, most = _parted(points, odd)
    apart = not _any_on_gpu(points) or {function_of(one) for one in few}.isdisjoint(map(function_of, most))
    return odd if apart and _frames_tell(points) else frozenset()


def _function(points: Sequence[WaitPoint]) -> frozenset[int]:
    """Another function than that of more than half: ranks in one function are in one loop, and the others left it."""
    only_kernels = all(point.kind == "device" for point in points)
    return _outside(points, function_of) if not only_kernels and _frames_tell(points) else frozenset()


def _function_of_kernels(points: Sequence[WaitPoint]) -> frozenset[int]:
    """The same where all wait for their GPUs, which a program that all ranks run does at the same lines.

    A full queue of kernels may be met at any line, and rank 0 alone often asks for a figure to print.
    """
    members, odd = _members(points), _outside(points, function_of)
    only_kernels = all(point.kind == "device" for point in points)
    prints = odd == {0} and not any(_phases(one) & DONE_ALONE for one in members if one.rank == 0)
    if not only_kernels or prints or not all(map(_stays_at_its_line, members)):
        return frozenset()
    return odd if len({one.where for one in members if one.rank not in odd}) == 1 else frozenset()


def _line(points: Sequence[WaitPoint]) -> frozenset[int]:
    """Another line than that of more than half; of ranks that wait for their GPUs lines say nothing."""
    return frozenset() if _any_on_gpu(points) else _outside(points, lambda one: one.where)


def function_of(status: RankStatus) -> str:
    """The innermost function of the program that a rank is in."""
    return "" if status.activity is None else status.activity.function or status.activity.label


def _any_on_gpu(points: Sequence[WaitPoint]) -> bool:
    return any(point.kind == "device" for point in points)


def _frames_tell(points: Sequence[WaitPoint]) -> bool:
    """Whether frames tell in what the ranks wait. Over NCCL an operation is but launched.

    So a rank that is met in one beside ranks that wait for their GPUs waits for its GPU as they do; unless it is in a
    barrier or at a store, or sleeps in the operation, which then goes over the CPU.
    """
    others = [one for point in points if point.kind != "device" for one in point.members]
    return not _any_on_gpu(points) or all(map(_holds, others))


def _holds(one: RankStatus) -> bool:
    doing = one.activity
    if doing is None or doing.kind not in ("collective", "store"):
        return False
    return doing.op in BARRIERS or doing.kind == "store" or (one.frozen is True and one.motion.blocked)


def _stays_at_its_line(one: RankStatus) -> bool:
    """Whether the frames of a rank were seen, and are not those of a full queue, which any line may meet."""
    full = one.activity is not None and one.activity.meaning is Meaning.GPU_QUEUE_FULL
    return one.seen and bool(one.where) and not full


def kind_of(one: RankStatus) -> Kind:
    """The kind of what a rank waits in; ``device`` where no frame was read, as the GPU tells it."""
    return "device" if one.activity is None or one.activity.error else one.activity.kind


def _phases(one: RankStatus) -> frozenset[Phase]:
    return frozenset() if one.activity is None else one.activity.context


class _Sign(NamedTuple):
    source: Source
    weight: int
    odd_of: Callable[[Sequence[WaitPoint]], frozenset[int]]


SIGNS = (
    _Sign("gpus", 4, _load),
    _Sign("groups", 4, _sub_group),
    _Sign("threads", 3, _network_threads),
    _Sign("groups", 2, _whole_job),
    _Sign("operations", 1, _operation),
    _Sign("operations", 2, _function),
    _Sign("lines", 2, _function_of_kernels),
    _Sign("operations", 1, _line),
)
