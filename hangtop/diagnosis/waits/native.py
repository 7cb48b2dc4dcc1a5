"""What one rank's native frames, or its GPU, say of ranks at the same point of the program.

Native frames pause a process and cost half a second of CPU, so one rank a point is asked for them; the others at that
point, in the same state, with a GPU that does the same, are in the same call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from hangtop.diagnosis.evidence.gpus import draws_work_power
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.stacks.states import Activity
from hangtop.diagnosis.tables.thresholds import WORTH_SAYING_S
from hangtop.diagnosis.waits.looks import waits_for_gpu, with_meaning
from hangtop.diagnosis.waits.rank_status import RankStatus, with_activity

FEW = 256
"""Ranks of which each look is compared with those at the others."""
TOGETHER_S = 0.6
"""Ours: seconds within which the ranks of a job are met in one look."""
MOST = 8
"""Points that are asked for native frames in one go."""
MOST_TORN = 4
"""Of these, ranks that reading without a pause could not read."""
Point = tuple[str, str, str, str]
"""Folded frames, innermost user frame with its line, process state, what the GPU does."""


def told_at_same_point(job: Job, statuses: Iterable[RankStatus]) -> dict[int, RankStatus]:
    """Ranks whose Python frames leave open what they do, with what native frames of another rank there say."""
    told: dict[Point, Activity] = {}
    open_ones: list[tuple[RankStatus, Activity]] = []
    for status in statuses:
        doing = status.activity
        if doing is None or doing.error:
            continue
        if status.native:
            told.setdefault(_point(status, doing), doing)
        elif doing.native_would_tell:
            open_ones.append((status, doing))
    known = ((status, doing, told.get(_point(status, doing))) for status, doing in open_ones if told)
    return {
        status.rank: with_activity(job, status, with_meaning(doing, meaning))
        for status, doing, meaning in known
        if meaning is not None
    }


def told_by_gpu(job: Job, statuses: Iterable[RankStatus]) -> dict[int, RankStatus]:
    """Ranks of which stacks do not tell all, where the GPUs do: full and waiting, or empty while the others wait.

    Of a job that stands still: a rank in a call that Python frames do not show while its GPU is full and only waits,
    waits for that; of unread ranks the GPU tells everything that is known.
    """
    if not job.live or (job.stood_still or 0.0) < WORTH_SAYING_S or job.motion.moving:
        return {}
    present = [one for one in statuses if one.present]
    found = {}
    for one in present:
        doing = one.activity
        full = one.state == "working" and one.load == "spinning"
        if full and doing is not None and doing.native_would_tell and not doing.moving:
            found[one.rank] = with_activity(job, one, waits_for_gpu(doing))
    if sum(one.load == "spinning" for one in present) * 2 < len(present):
        return found
    held = job.stood_still or 0.0
    for one in present:
        if one.state == "unseen" and one.load == "spinning":
            found[one.rank] = one._replace(state="waiting", held=held, frozen=True)
        elif one.state == "unseen" and one.load == "idle":
            found[one.rank] = one._replace(state="working", held=held, frozen=None)
    return found


def told_by_peers(job: Job, statuses: Sequence[RankStatus]) -> Sequence[RankStatus]:
    """The same, with looks at a call that Python does not show as waits, where most ranks were in it, and not all.

    A job that goes on is not stopped for its native frames, and over NCCL most of its waits are such calls. A GPU that
    draws the power of work computes, and its rank does not wait. Of a few hundred ranks at the most.
    """
    if not 2 < len(statuses) <= FEW:
        return statuses
    at_line: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for one in statuses:
        for look in one.readings:
            if is_opaque(look):
                at_line[look.where].append((look.at, one.rank))

    def told(look: Activity) -> Activity:
        if not is_opaque(look):
            return look
        there = {rank for at, rank in at_line[look.where] if abs(at - look.at) <= TOGETHER_S}
        return waits_for_gpu(look) if len(statuses) < 2 * len(there) < 2 * len(statuses) else look

    return [
        one
        if one.process is not None and draws_work_power(job, one.process)
        else one._replace(readings=[told(look) for look in one.readings])
        for one in statuses
    ]


def is_opaque(doing: Activity) -> bool:
    """Python frames end at a line of the user's that called C code, and do not tell what that waits for."""
    open_ended = doing.kind in ("code", "sleep") and doing.waits in ("nothing", "unknown", "time")
    return open_ended and doing.decided_by is None and bool(doing.where) and not doing.error


def to_ask_natively(statuses: Collection[RankStatus]) -> tuple[int, ...]:
    """One rank of each point whose Python frames leave open what happens there, the points of most ranks first.

    Before them ranks that no look could read, for they change under the eye: in a job that stands still the busy one
    is most likely the one that the others wait for, and only a read that pauses it is whole.
    """
    present = [(one, one.activity) for one in statuses if one.present and one.activity is not None]
    torn = [one.rank for one, doing in present if doing.error == "torn" and not one.native][:MOST_TORN]
    known = {_point(one, doing) for one, doing in present if one.native}
    by_point: dict[Point, list[int]] = {}
    for one, doing in present:
        if not doing.error and doing.native_would_tell and not doing.moving and _point(one, doing) not in known:
            by_point.setdefault(_point(one, doing), []).append(one.rank)
    groups: Sequence[list[int]] = sorted(by_point.values(), key=lambda ranks: (-len(ranks), ranks))
    return (*torn, *(ranks[0] for ranks in groups[: MOST - len(torn)]))


def _point(status: RankStatus, doing: Activity) -> Point:
    """What ranks must have in common for the native frames of one to speak for the others."""
    state = status.motion.state or doing.state
    return doing.place, doing.where, "R" if state == "R" else "S", status.load
