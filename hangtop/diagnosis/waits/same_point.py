"""What one rank's native frames, or its GPU, say of ranks at the same point of the program.

Native frames pause a process and cost half a second of CPU, so one rank a point is asked for them; the others at that
point, in the same state, with a GPU that does the same, are in the same call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from hangtop.diagnosis.job import Job
from hangtop.diagnosis.stacks.states import Activity, Meaning
from hangtop.diagnosis.tables.thresholds import WORTH_SAYING_S
from hangtop.diagnosis.waits.rank_status import RankStatus, told_by

MOST = 8
"""Points that are asked for native frames in one go."""
MOST_TORN = 4
"""Of these, ranks that reading without a pause could not read."""
Point = tuple[str, str, str, str]
"""Folded frames, innermost user frame with its line, process state, what the GPU does."""


def point_of(status: RankStatus, doing: Activity) -> Point:
    """What ranks must have in common for the native frames of one to speak for the others."""
    state = status.motion.state or doing.state
    return doing.place, doing.where, "R" if state == "R" else "S", status.load


def told_at_same_point(job: Job, statuses: Iterable[RankStatus]) -> dict[int, RankStatus]:
    """Ranks whose Python frames leave open what they do, with what native frames of another rank there say."""
    told: dict[Point, Activity] = {}
    open_ones: list[tuple[RankStatus, Activity]] = []
    for status in statuses:
        doing = status.activity
        if doing is None or doing.error:
            continue
        if status.native:
            told.setdefault(point_of(status, doing), doing)
        elif doing.native_would_tell:
            open_ones.append((status, doing))
    if not told:
        return {}
    known = ((status, told.get(point_of(status, doing))) for status, doing in open_ones)
    return {status.rank: told_by(job, status, meaning) for status, meaning in known if meaning is not None}


def told_by_gpu(job: Job, statuses: Iterable[RankStatus]) -> dict[int, RankStatus]:
    """Ranks of which stacks do not tell all, where the GPUs do: full and waiting, or empty while the others wait.

    Of a job that stands still: whoever is in a call that Python frames do not show while its GPU is full and only
    waits, waits for that; of unread ranks the GPU tells everything that is known.
    """
    if not job.live or (job.stood_still or 0.0) < WORTH_SAYING_S or job.motion.moving:
        return {}
    present = [one for one in statuses if one.present]
    unread = [one for one in present if one.state == "unseen"]
    found = {
        one.rank: told_by(job, one, waits_for_gpu(one.activity)) for one in present if _in_a_call(one) and one.activity
    }
    spinning = sum(one.load == "spinning" for one in present)
    if not unread or spinning * 2 < len(present):
        return found
    held = job.stood_still or 0.0
    for one in unread:
        if one.load == "spinning":
            found[one.rank] = one._replace(state="waiting", held=held, frozen=True)
        elif one.load == "idle":
            found[one.rank] = one._replace(state="working", held=held, frozen=None)
    return found


def _in_a_call(status: RankStatus) -> bool:
    doing = status.activity
    full = status.state == "working" and status.load == "spinning"
    return full and doing is not None and doing.native_would_tell and not doing.moving


def waits_for_gpu(doing: Activity) -> Activity:
    """The same as a wait for its own GPU, as that tells."""
    meaning = Meaning.GPU_FULL
    return doing._replace(
        kind=meaning.kind, meaning=meaning, waits=meaning.waits, label=meaning.words, native_would_tell=False
    )


def to_ask_natively(statuses: Collection[RankStatus]) -> tuple[int, ...]:
    """One rank of each point whose Python frames leave open what happens there, the points of most ranks first.

    Before them ranks that no look could read, for they change under the eye: in a job that stands still, whoever is
    that busy is most likely the one that the others wait for, and only a read that pauses it is whole.
    """
    torn = [one.rank for one in statuses if one.present and not one.native and _is_torn(one)][:MOST_TORN]
    by_point: dict[Point, list[int]] = {}
    known = {point_of(one, one.activity) for one in statuses if one.native and one.activity is not None}
    for one in statuses:
        doing = one.activity
        if doing is None or doing.error or not doing.native_would_tell or doing.moving or not one.present:
            continue
        if (point := point_of(one, doing)) not in known:
            by_point.setdefault(point, []).append(one.rank)
    groups: Sequence[list[int]] = sorted(by_point.values(), key=lambda ranks: (-len(ranks), ranks))
    return (*torn, *(ranks[0] for ranks in groups[: MOST - len(torn)]))


def _is_torn(status: RankStatus) -> bool:
    return status.activity is not None and status.activity.error == "torn"
