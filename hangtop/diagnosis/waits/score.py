"""How much the proof of a blamed rank weighs: no more than its weakest part.

What the weight means (proven, likely, possible) is told by :mod:`hangtop.diagnosis.certainty`, which also asks for two
independent sources.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hangtop.diagnosis.waits.graph import WaitGraph
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import RankStatus, in_c_code
from hangtop.diagnosis.waits.wake_set import WakeProgress

FULL = 0.92
OPEN_KINDS = frozenset({"device", "backward", "forward"})
"""Kinds of waits whose Python frames do not say in which operation they end."""


class Blame(NamedTuple):
    """Whom a finding blames, and upon what."""

    job_status: JobStatus
    graph: WaitGraph
    members: Sequence[RankStatus]


class Doubt(NamedTuple):
    """A reason why the blamed ranks may not be the ones, and what the proof weighs with it at the most."""

    name: str
    most: float
    applies: Callable[[Blame], bool]


def in_a_kernel(status: RankStatus) -> bool:
    """True for a rank that holds others up by its GPU, which is full of something that is not their collective."""
    return status.state == "on_gpu" and status.load == "spinning"


def _held_up(blame: Blame) -> bool:
    return blame.graph.pattern == "held_up"


def _any(blame: Blame, test: Callable[[RankStatus], bool]) -> bool:
    return any(map(test, blame.members))


def _apart(blame: Blame) -> bool:
    return len({culprit.where for culprit in blame.graph.culprits}) > 1


def _at_several_lines(blame: Blame) -> bool:
    return blame.graph.by == "operations" and any(
        point.kind == "device" and not point.where for point in blame.graph.points
    )


def _moves(blame: Blame) -> bool:
    return any(member.frozen is not True for member in blame.members)


def _on_unknown_gpu(status: RankStatus) -> bool:
    return status.activity is not None and status.activity.kind == "device" and status.load == "unknown"


def _open(blame: Blame) -> bool:
    return any(point.kind in OPEN_KINDS for point in blame.graph.points)


def _one_operation(blame: Blame) -> bool:
    return not _held_up(blame) and len({(point.kind, point.op) for point in blame.graph.points}) == 1


def _unseen_in_c(status: RankStatus) -> bool:
    doing = status.activity
    opaque = doing is not None and doing.native_would_tell and not doing.waiting_on and doing.waits == "unknown"
    return in_c_code(status) or opaque


def _by_name(status: RankStatus) -> bool:
    return status.activity is not None and status.activity.by_name


def _outside(blame: Blame) -> bool:
    job_status = blame.job_status
    return job_status.job.live and any(
        job_status.wake_set(one).progress is WakeProgress.OUTSIDE for one in blame.members
    )


DOUBTS = (
    Doubt("the others spin: that they stand still is not seen", 0.8, lambda b: not b.graph.frozen),
    Doubt("that the rank stands still is not seen", 0.8, lambda b: _held_up(b) and _moves(b)),
    Doubt("the operation is not known", 0.8, lambda b: not _held_up(b) and _open(b)),
    Doubt("the blamed are the most", 0.8, lambda b: len(b.members) > len(b.graph.waiters)),
    Doubt("the blamed are at several places", 0.8, lambda b: _held_up(b) and _apart(b)),
    Doubt("names in the user's code alone give the kind", 0.72, lambda b: _held_up(b) and _any(b, _by_name)),
    Doubt("NCCL's network threads alone tell", 0.72, lambda b: b.graph.by == "threads" or _any(b, in_a_kernel)),
    Doubt("what blocks the rank may yet come", 0.7, lambda b: _held_up(b) and _outside(b)),
    Doubt("native frames would tell more", 0.7, lambda b: _held_up(b) and _any(b, _unseen_in_c)),
    Doubt("it may be one collective after all", 0.7, _one_operation),
    Doubt("the line at which they wait alone tells", 0.55, lambda b: b.graph.by == "lines"),
    Doubt("nothing tells what their GPUs do", 0.55, lambda b: not _held_up(b) and all(map(_on_unknown_gpu, b.members))),
    Doubt("the others may be stages of a pipeline", 0.55, lambda b: not _held_up(b) and _at_several_lines(b)),
    Doubt("both sides are as large", 0.55, lambda b: b.graph.tied),
)


def weight_of(job_status: JobStatus, graph: WaitGraph, members: Sequence[RankStatus]) -> float:
    """Weigh the proof that these ranks hold up the others."""
    blame = Blame(job_status, graph, members)
    return min((doubt.most for doubt in DOUBTS if doubt.applies(blame)), default=FULL)
