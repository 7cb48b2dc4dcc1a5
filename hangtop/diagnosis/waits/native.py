"""What one rank's native frames, or its GPU, say of ranks at the same point of the program.

Native frames pause a process and cost half a second of CPU, so one rank a point is asked for them; the others at that
point, in the same state, with a GPU that does the same, are in the same call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from hangtop.diagnosis.job import Job
from hangtop.diagnosis.stacks.states import Activity
from hangtop.diagnosis.tables.thresholds import WORTH_SAYING_S
from hangtop.diagnosis.waits.looks import waits_for_gpu, with_meaning
from hangtop.diagnosis.waits.rank_status import RankStatus, with_activity

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
