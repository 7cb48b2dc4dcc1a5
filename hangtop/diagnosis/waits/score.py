"""How much the proof of a blamed rank weighs: no more than its weakest part.

What the weight means (proven, likely, possible) is told by :mod:`hangtop.diagnosis.finding`, which also asks for two
independent sources.
"""

from __future__ import annotations

from collections.abc import Sequence

from hangtop.diagnosis.waits.graph import WaitGraph
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import RankStatus
from hangtop.diagnosis.waits.wake_set import WakeProgress

FULL = 0.92
OPEN_KINDS = frozenset({"device", "backward", "forward"})
"""Kinds of waits whose Python frames do not say in which operation they end."""


def weight_of(job_status: JobStatus, graph: WaitGraph, members: Sequence[RankStatus]) -> float:
    """Weigh the proof that these ranks hold up the others."""
    general = (
        (not graph.frozen, 0.8),  # the others spin: that they stand still is not seen
        (len(members) > len(graph.waiters), 0.8),  # the blamed are the most
        (graph.by == "threads" or any(map(in_a_kernel, members)), 0.72),  # NCCL's network threads alone tell
    )
    special = _held_up(job_status, graph, members) if graph.pattern == "held_up" else _all_wait(graph, members)
    return min((most for applies, most in (*general, *special) if applies), default=FULL)


def in_a_kernel(status: RankStatus) -> bool:
    """Whether a rank holds others up by its GPU, which is full of something that is not their collective."""
    return status.state == "on_gpu" and status.load == "spinning"


def _held_up(job_status: JobStatus, graph: WaitGraph, members: Sequence[RankStatus]) -> tuple[tuple[bool, float], ...]:
    """Doubts about ranks that do not wait, and what the proof weighs with each at the most."""
    outside = (job_status.wake_set(one).progress is WakeProgress.OUTSIDE for one in members if job_status.job.live)
    return (
        (any(one.frozen is not True for one in members), 0.8),  # that they stand still is not seen
        (len({culprit.where for culprit in graph.culprits}) > 1, 0.8),  # they are at several places
        (any(one.activity is not None and one.activity.by_name for one in members), 0.72),  # names alone give the kind
        (any(outside), 0.7),  # what blocks them may yet come
        (any(map(_native_would_tell, members)), 0.7),
    )


def _all_wait(graph: WaitGraph, members: Sequence[RankStatus]) -> tuple[tuple[bool, float], ...]:
    """Doubts about ranks that wait elsewhere than the others."""
    on_gpus = [one for one in members if one.activity is not None and one.activity.kind == "device"]
    return (
        (any(point.kind in OPEN_KINDS for point in graph.points), 0.8),  # the operation is not known
        (len({(point.kind, point.op) for point in graph.points}) == 1, 0.7),  # it may be one collective after all
        (graph.by == "lines", 0.55),  # the line at which they wait alone tells
        (len(on_gpus) == len(members) and all(one.load == "unknown" for one in on_gpus), 0.55),
        (graph.by == "operations" and any(p.kind == "device" and not p.where for p in graph.points), 0.55),  # stages
        (graph.pattern == "mismatch" and graph.by is None, 0.55),  # nothing tells which side is odd
    )


def _native_would_tell(status: RankStatus) -> bool:
    doing = status.activity
    opaque = doing is not None and doing.native_would_tell and not doing.waiting_on and doing.waits == "unknown"
    return status.in_c_code or opaque
