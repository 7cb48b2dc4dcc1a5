"""If every rank waits: the few ranks that are at another point of the program than all others.

Each sign below uses one kind of evidence to split the ranks into a majority and odd ranks, or finds no odd ranks. The
surest sign comes first, and the first sign that finds odd ranks decides.

Example: ranks 0 to 2 wait in ``all_reduce`` while their GPUs spin; rank 3 waits in a ``barrier`` at another line, and
its GPU is idle → the GPUs set rank 3 apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Literal, NamedTuple

from hangtop.diagnosis.tables.thresholds import BUSY_CORES
from hangtop.diagnosis.waits.points import WaitPoint
from hangtop.diagnosis.waits.rank_status import RankStatus

Source = Literal["gpus", "threads", "groups", "operations", "lines"]
"""The sign that sets the odd ranks apart: the load of their GPUs; NCCL's network threads; an operation of a sub-group,
which ends before an operation of all ranks; the function, operation or line; or, if all ranks wait for their GPUs, the
function alone."""
BARRIERS = ("barrier", "monitored_barrier", "sync_global_devices")
"""Operations that no rank leaves before all ranks have entered."""
AT_REST = 0.1
"""Most cores that the threads of a rank, without the main thread, use together while all of them sleep."""
DONE_ALONE = frozenset({"evaluation", "checkpoint"})
"""Phases that rank 0 often runs alone by mistake, although the calls inside need all ranks."""


class OddRanks(NamedTuple):
    """The odd ranks, and the sign that sets them apart."""

    ranks: frozenset[int]
    by: Source


def odd_ranks(points: Sequence[WaitPoint]) -> OddRanks | None:
    """The ranks at another point of the program, by the surest sign that finds any; None if no sign does."""
    for source, sign in SIGNS:
        if odd := sign(points):
            return OddRanks(odd, source)
    return None


def _minority(points: Sequence[WaitPoint], class_of: Callable[[RankStatus], Hashable]) -> frozenset[int]:
    """The ranks outside the class of more than half of all ranks; empty if no class is that large."""
    classes: dict[Hashable, set[int]] = defaultdict(set)
    for status in _members(points):
        classes[class_of(status)].add(status.rank)
    ranks = frozenset[int]().union(*classes.values())
    crowd = max(classes.values(), key=len)
    return ranks - crowd if 2 * len(crowd) > len(ranks) else frozenset()


def _members(points: Sequence[WaitPoint]) -> list[RankStatus]:
    return [status for point in points for status in point.members]


def _elsewhere(points: Sequence[WaitPoint], odd: frozenset[int]) -> bool:
    """Whether no odd rank shares a line with the other ranks: ranks at one line are at one point of the program."""
    few = {status.where for status in _members(points) if status.rank in odd}
    return few.isdisjoint(status.where for status in _members(points) if status.rank not in odd)


# --- the signs ---------------------------------------------------------------------------------------------------


def _load(points: Sequence[WaitPoint]) -> frozenset[int]:
    """Ranks whose GPU is idle while a collective's kernel spins on the GPU of every other rank."""
    odd = _minority(points, lambda status: status.load)
    loads = {(status.rank in odd, status.load) for status in _members(points)}
    return odd if loads == {(True, "idle"), (False, "spinning")} else frozenset()


def _network_threads(points: Sequence[WaitPoint]) -> frozenset[int]:
    """The smaller part, if NCCL's network threads sleep in some ranks and work in the others.

    These threads never sleep during an operation over the network. A rank with sleeping threads is in a collective over
    the CPU, or waits for an earlier kernel than the others; all ranks with working threads wait for their GPUs.
    """
    odd, members = _minority(points, threads_rest), _members(points)
    known = all(threads_rest(status) is not None for status in members)
    before = all(threads_rest(status) if status.kind == "collective" else status.kind == "device" for status in members)
    return odd if known and before and _elsewhere(points, odd) else frozenset()


def threads_rest(status: RankStatus) -> bool | None:
    """Whether all threads but the main one, NCCL's included, sleep in a rank that spins; None if unknown."""
    cores = status.motion.threads
    if cores is None or not status.motion.busy or AT_REST < cores < BUSY_CORES:
        return None
    return cores <= AT_REST


def _sub_group(points: Sequence[WaitPoint]) -> frozenset[int]:
    """Ranks in an operation of a sub-group, which ends before an operation that needs all ranks."""
    odd = frozenset(rank for point in points if point.inner for rank in point.ranks)
    few = 2 * len(odd) <= len(_members(points))
    return odd if few and _elsewhere(points, odd) and _frames_tell(points) else frozenset()


def _program(points: Sequence[WaitPoint]) -> frozenset[int]:
    """Ranks in another function than more than half of the ranks; else in another operation; else at another line.

    Ranks in one function are in one loop, and the odd ranks have left the loop.
    """
    if all(point.kind == "device" for point in points) or not _frames_tell(points):
        return frozenset()
    point_of = {rank: number for number, point in enumerate(points) for rank in point.ranks}
    classes = (_function_of, lambda status: point_of[status.rank], lambda status: status.where)
    return next(filter(None, (_minority(points, class_of) for class_of in classes)), frozenset())


def _function_of_kernels(points: Sequence[WaitPoint]) -> frozenset[int]:
    """Ranks in another function, if all ranks wait for their GPUs: ranks of one program do so at the same lines.

    A full queue of kernels blocks at any line, so the other ranks must share one line. Rank 0 alone often reads a
    figure to print, so rank 0 alone counts only in evaluation or a checkpoint.
    """
    members, odd = _members(points), _minority(points, _function_of)
    only_kernels = all(point.kind == "device" for point in points)
    alone = any(status.activity and status.activity.context & DONE_ALONE for status in members if status.rank in odd)
    prints = odd == {0} and not alone
    together = len({status.where for status in members if status.rank not in odd}) == 1
    return odd if only_kernels and together and not prints and all(status.read for status in members) else frozenset()


def _function_of(status: RankStatus) -> str:
    """The innermost user function of a rank, else the label of its activity."""
    return "" if status.activity is None else status.activity.function or status.activity.label


def _frames_tell(points: Sequence[WaitPoint]) -> bool:
    """Whether frames show in which operation each rank waits. An NCCL call only launches the operation.

    So if some ranks wait for their GPUs, a rank in an NCCL call waits for its GPU as well. Exceptions: the rank is in a
    barrier or a store wait, or it sleeps in the operation, which then runs over the CPU.
    """
    others = [point for point in points if point.kind != "device"]
    held = (
        point.kind == "store" or point.op in BARRIERS or all(status.motion.blocked for status in point.members)
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
