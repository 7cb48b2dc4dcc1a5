"""Where every rank waits: the few ranks that are at another point of the program than all others.

The signs below, the surest first, each part the ranks into a crowd and the odd ones by one kind of evidence, or say
nothing. The first sign that says something decides; without any no rank is odd.

Example: ranks 0 to 2 spin at ``all_reduce``, their GPUs full; rank 3 is in a ``barrier`` at another line, its GPU idle:
the GPUs set rank 3 apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Literal, NamedTuple

from hangtop.diagnosis.stacks.states import Meaning
from hangtop.diagnosis.tables.thresholds import BUSY_CORES
from hangtop.diagnosis.waits.points import WaitPoint
from hangtop.diagnosis.waits.rank_status import RankStatus

Source = Literal["gpus", "threads", "groups", "operations", "lines"]
"""What sets the odd ranks apart: what their GPUs do, NCCL's network threads, that an operation of a sub-group ends
before one of all, the operation, function or line that they are in, or only the function in which they wait for their
GPUs."""
BARRIERS = ("barrier", "monitored_barrier", "sync_global_devices")
"""Operations that no rank leaves before all have come to it."""
AT_REST = 0.1
"""Cores that the threads of a rank beside its main one use at the most while they all sleep."""
DONE_ALONE = frozenset({"evaluation", "checkpoint"})
"""What rank 0 likes to do alone, though what it calls needs all ranks."""


class OddRanks(NamedTuple):
    """The odd ranks, and the sign that sets them apart."""

    ranks: frozenset[int]
    by: Source


def odd_ranks(points: Sequence[WaitPoint]) -> OddRanks | None:
    """The ranks at another point of the program, by the surest sign that tells of any; None where no sign does."""
    for source, sign in SIGNS:
        if odd := sign(points):
            return OddRanks(odd, source)
    return None


def _minority(points: Sequence[WaitPoint], class_of: Callable[[RankStatus], Hashable]) -> frozenset[int]:
    """The ranks that are not of the class to which more than half of all ranks belong; empty without such a class."""
    classes: dict[Hashable, set[int]] = defaultdict(set)
    for one in _members(points):
        classes[class_of(one)].add(one.rank)
    every = frozenset[int]().union(*classes.values())
    crowd = max(classes.values(), key=len)
    return every - crowd if 2 * len(crowd) > len(every) else frozenset()


def _members(points: Sequence[WaitPoint]) -> list[RankStatus]:
    return [one for point in points for one in point.members]


def _apart(points: Sequence[WaitPoint], odd: frozenset[int], of: Callable[[RankStatus], str]) -> bool:
    """No odd rank is where another rank is, by its line or its function: ranks at one line are in one place."""
    few, most = ({of(one) for one in _members(points) if (one.rank in odd) is wanted} for wanted in (True, False))
    return few.isdisjoint(most)


# --- the signs ---------------------------------------------------------------------------------------------------


def _load(points: Sequence[WaitPoint]) -> frozenset[int]:
    """GPUs that idle among those in which a collective's kernel spins."""
    odd = _minority(points, lambda one: one.load)
    loads = {(one.rank in odd, one.load) for one in _members(points)}
    return odd if loads == {(True, "idle"), (False, "spinning")} else frozenset()


def _network_threads(points: Sequence[WaitPoint]) -> frozenset[int]:
    """NCCL's threads, which never sleep while an operation over the network is under way, rest in some ranks alone.

    Those of ranks that wait for their GPUs are at work in all others. The ranks at rest are in a collective that goes
    over the CPU, or the few of them wait for a kernel before the one that the others wait in.
    """
    odd, members = _minority(points, threads_rest), _members(points)
    rests = [one for one in members if threads_rest(one)]
    told = rests and odd in ({one.rank for one in rests}, {one.rank for one in members} - {one.rank for one in rests})
    known = all(threads_rest(one) is not None for one in members)
    before = all(one.kind == "collective" or (one.kind == "device" and one.rank in odd) for one in rests)
    on_gpu = all(one.kind == "device" for one in members if one not in rests)
    return odd if told and known and before and on_gpu and _apart(points, odd, _line_of) else frozenset()


def threads_rest(one: RankStatus) -> bool | None:
    """Whether the threads beside the main one, NCCL's among them, sleep in a rank that spins; None where unknown."""
    cores = one.motion.threads
    if cores is None or not one.motion.busy or AT_REST < cores < BUSY_CORES:
        return None
    return cores <= AT_REST


def _sub_group(points: Sequence[WaitPoint]) -> frozenset[int]:
    """Operations of groups that are smaller than the job end before one that needs all ranks."""
    odd = frozenset(rank for point in points if point.inner for rank in point.ranks)
    told = 2 * len(odd) <= len(_members(points)) and _apart(points, odd, _line_of)
    return odd if told and _frames_tell(points) else frozenset()


def _program(points: Sequence[WaitPoint]) -> frozenset[int]:
    """Another function than that of more than half, as ranks in one function are in one loop and the others left it.

    Else another operation, or another line. A rank beside those that wait for their GPUs must be in another function:
    it may be at the next line of theirs.
    """
    on_gpu = [point.kind == "device" for point in points]
    if all(on_gpu) or not _frames_tell(points):
        return frozenset()
    point_of = {rank: number for number, point in enumerate(points) for rank in point.ranks}
    parts = (_minority(points, of) for of in (_function_of, lambda one: point_of[one.rank], _line_of))
    odd = next(filter(None, parts), frozenset[int]())
    return odd if not any(on_gpu) or _apart(points, odd, _function_of) else frozenset()


def _function_of_kernels(points: Sequence[WaitPoint]) -> frozenset[int]:
    """Another function where all wait for their GPUs, which a program that all ranks run does at the same lines.

    A full queue of kernels may be met at any line, and rank 0 alone often asks for a figure to print.
    """
    members, odd = _members(points), _minority(points, _function_of)
    only_kernels = all(point.kind == "device" for point in points)
    alone = any(one.activity is not None and one.activity.context & DONE_ALONE for one in members if one.rank in odd)
    prints = odd == {0} and not alone
    together = len({one.where for one in members if one.rank not in odd}) == 1
    return odd if only_kernels and together and not prints and all(map(_stays_at_its_line, members)) else frozenset()


def _line_of(one: RankStatus) -> str:
    return one.where


def _function_of(one: RankStatus) -> str:
    """The innermost function of the program that a rank is in."""
    return "" if one.activity is None else one.activity.function or one.activity.label


def _any_on_gpu(points: Sequence[WaitPoint]) -> bool:
    return any(point.kind == "device" for point in points)


def _frames_tell(points: Sequence[WaitPoint]) -> bool:
    """Whether frames tell in what the ranks wait. Over NCCL an operation is but launched.

    So a rank that is met in one beside ranks that wait for their GPUs waits for its GPU as they do; unless it is in a
    barrier or at a store, or sleeps in the operation, which then goes over the CPU.
    """
    return not _any_on_gpu(points) or all(map(_holds, (point for point in points if point.kind != "device")))


def _holds(point: WaitPoint) -> bool:
    sleeps = all(one.frozen is True and one.motion.blocked for one in point.members)
    return point.kind == "store" or (point.kind == "collective" and (point.op in BARRIERS or sleeps))


def _stays_at_its_line(one: RankStatus) -> bool:
    """Whether the frames of a rank were seen, and are not those of a full queue, which any line may meet."""
    full = one.activity is not None and one.activity.meaning is Meaning.GPU_QUEUE_FULL
    return one.read and bool(one.where) and not full


SIGNS: tuple[tuple[Source, Callable[[Sequence[WaitPoint]], frozenset[int]]], ...] = (
    ("gpus", _load),
    ("groups", _sub_group),
    ("threads", _network_threads),
    ("operations", _program),
    ("lines", _function_of_kernels),
)
