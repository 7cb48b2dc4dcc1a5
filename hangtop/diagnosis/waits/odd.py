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


def _elsewhere(points: Sequence[WaitPoint], odd: frozenset[int]) -> bool:
    """No odd rank is at the line of another rank: ranks at one line are in one place."""
    few, most = ({one.where for one in _members(points) if (one.rank in odd) is wanted} for wanted in (True, False))
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
    known = all(threads_rest(one) is not None for one in members)
    before = all(one.kind == "device" or (one.kind == "collective" and threads_rest(one)) for one in members)
    return odd if known and before and _elsewhere(points, odd) else frozenset()


def threads_rest(one: RankStatus) -> bool | None:
    """Whether the threads beside the main one, NCCL's among them, sleep in a rank that spins; None where unknown."""
    cores = one.motion.threads
    if cores is None or not one.motion.busy or AT_REST < cores < BUSY_CORES:
        return None
    return cores <= AT_REST


def _sub_group(points: Sequence[WaitPoint]) -> frozenset[int]:
    """Operations of groups that are smaller than the job end before one that needs all ranks."""
    odd = frozenset(rank for point in points if point.inner for rank in point.ranks)
    few = 2 * len(odd) <= len(_members(points))
    return odd if few and _elsewhere(points, odd) and _frames_tell(points) else frozenset()


def _program(points: Sequence[WaitPoint]) -> frozenset[int]:
    """Another function than that of more than half, as ranks in one function are in one loop and the others left it.

    Else another operation, or another line.
    """
    if all(point.kind == "device" for point in points) or not _frames_tell(points):
        return frozenset()
    point_of = {rank: number for number, point in enumerate(points) for rank in point.ranks}
    parts = (_minority(points, of) for of in (_function_of, lambda one: point_of[one.rank], lambda one: one.where))
    return next(filter(None, parts), frozenset())


def _function_of_kernels(points: Sequence[WaitPoint]) -> frozenset[int]:
    """Another function where all wait for their GPUs, which a program that all ranks run does at the same lines.

    A full queue of kernels may be met at any line, so the others must be at one; and rank 0 alone often asks for a
    figure to print.
    """
    members, odd = _members(points), _minority(points, _function_of)
    only_kernels = all(point.kind == "device" for point in points)
    alone = any(one.activity is not None and one.activity.context & DONE_ALONE for one in members if one.rank in odd)
    prints = odd == {0} and not alone
    together = len({one.where for one in members if one.rank not in odd}) == 1
    return odd if only_kernels and together and not prints and all(one.read for one in members) else frozenset()


def _function_of(one: RankStatus) -> str:
    """The innermost function of the program that a rank is in."""
    return "" if one.activity is None else one.activity.function or one.activity.label


def _frames_tell(points: Sequence[WaitPoint]) -> bool:
    """Whether frames tell in what the ranks wait. Over NCCL an operation is but launched.

    So a rank that is met in one beside ranks that wait for their GPUs waits for its GPU as they do; unless it is in a
    barrier or at a store, or sleeps in the operation, which then goes over the CPU.
    """
    others = [point for point in points if point.kind != "device"]
    held = (
        point.kind == "store" or point.op in BARRIERS or all(one.motion.blocked for one in point.members)
        for point in others
    )  # fmt: skip
    return len(others) == len(points) or all(held)


SIGNS: tuple[tuple[Source, Callable[[Sequence[WaitPoint]], frozenset[int]]], ...] = (
    ("gpus", _load),
    ("groups", _sub_group),
    ("threads", _network_threads),
    ("operations", _program),
    ("lines", _function_of_kernels),
)
