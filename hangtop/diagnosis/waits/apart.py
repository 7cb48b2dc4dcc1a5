"""Ranks that all wait for their own GPUs: whether all of them do so at one line of the program, and who does not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence

from hangtop.diagnosis.waits.points import WaitPoint
from hangtop.diagnosis.waits.rank_status import RankStatus

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
