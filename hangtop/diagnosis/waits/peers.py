"""What other ranks tell of one whose own Python frames leave open what it does.

Ranks at one line are in one place, whatever the kernel says of each: where one of them is seen to wait, by its native
frames or by its GPU, the others wait as well. Native frames pause a process and cost half a second of CPU, so one rank
a point is asked for them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from hangtop.diagnosis.evidence.gpus import draws_work_power
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.stacks.states import Activity, Meaning
from hangtop.diagnosis.tables.thresholds import WORTH_SAYING_S
from hangtop.diagnosis.waits.rank_status import WAITS, RankStatus, stands, with_activity, with_meaning

FEW, TOGETHER_S = 256, 0.6
"""Ranks of which each look is compared with those at the others, and seconds within which a look meets all of them."""
MOST = 8
"""Points that are asked for native frames in one go."""
MOST_TORN = 4
"""Of these, ranks that reading without a pause could not read."""


def told_by_peers(job: Job, statuses: Sequence[RankStatus]) -> dict[int, RankStatus]:
    """Ranks of which native frames of another rank, the GPUs, or most of the job at one line tell what they do."""
    native = {_point(one, one.activity): one.activity for one in statuses if one.native and one.activity}
    quiet = job.live and (job.stood_still or 0.0) >= WORTH_SAYING_S and not job.motion.moving
    found = {one.rank: one for one in statuses}
    for one in statuses if native or quiet else ():
        doing = one.activity
        if doing is None or doing.error or one.native or not doing.native_would_tell:
            continue
        told = native.get(_point(one, doing))
        if told is not None:
            found[one.rank] = with_activity(job, one, with_meaning(doing, told))
        elif quiet and one.state == "working" and one.load == "spinning" and not doing.moving:
            found[one.rank] = with_activity(job, one, _waits_for_gpu(doing))
    return found | _at_one_line(job, tuple(found.values()))


def _at_one_line(job: Job, statuses: Sequence[RankStatus]) -> dict[int, RankStatus]:
    """Count ranks as waiting that most of the job is with at one line, in a call of C that has no frame of its own.

    ``handle.wait()``, a lock and a wait for the GPU look the same without native frames. A rank that is alone there is
    stuck on something of its own; most of the job waits for an operation that all began, whether the kernel says that
    the ranks sleep, spin or nap between two polls. All of the job there may as well be a step that takes long in C
    code. A rank at the line at which another one is seen to wait waits as that one does.
    """
    dumped = [one for one in statuses if one.activity and one.readings]
    waits_at = {one.where: one for one in dumped if one.state in WAITS and one.where}
    at_line: dict[str, list[RankStatus]] = defaultdict(list)
    found: dict[int, RankStatus] = {}
    for one in dumped:
        doing = one.activity
        if doing is None or one.state != "working" or one.load == "computing" or doing.moving or not _is_opaque(doing):
            continue
        at_line[one.where].append(one)
        there = waits_at.get(one.where)
        if there is not None and there.activity is not None:
            found[one.rank] = one._replace(state=there.state, activity=with_meaning(doing, there.activity))
    for where, own in at_line.items():
        if not 1 < len(own) < len(dumped) or 2 * len(own) < len(dumped):
            continue
        elsewhere = any(one.state not in (*WAITS, "unseen") and one.where != where for one in statuses)
        if all(one.in_c_code or one.blocked for one in own) or ((stands(job) or not job.live) and elsewhere):
            found.update((one.rank, one._replace(state="waiting")) for one in own)
    return found


def with_waits_of_many(job: Job, statuses: Sequence[RankStatus]) -> Sequence[RankStatus]:
    """The same, with looks at a call that Python does not show as waits, where most ranks were in it, and not all.

    A job that goes on is not stopped for its native frames, and over NCCL most of its waits are such calls. A GPU that
    draws the power of work computes, and its rank does not wait. Of a few hundred ranks at the most.
    """
    at_line: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for one in statuses if 2 < len(statuses) <= FEW else ():
        for look in one.readings:
            if _is_opaque(look):
                at_line[look.where].append((look.at, one.rank))

    def told(look: Activity) -> Activity:
        there = {rank for at, rank in at_line[look.where] if _is_opaque(look) and abs(at - look.at) <= TOGETHER_S}
        return _waits_for_gpu(look) if len(statuses) < 2 * len(there) < 2 * len(statuses) else look

    return [
        one
        if not at_line or (one.process is not None and draws_work_power(job, one.process))
        else one._replace(readings=tuple(map(told, one.readings)))
        for one in statuses
    ]


def _is_opaque(doing: Activity) -> bool:
    """Python frames end at a line of the user's that called C code, and do not tell what that waits for."""
    open_ended = doing.kind in ("code", "sleep") and doing.waits in ("nothing", "unknown", "time")
    return open_ended and not doing.by_frame and bool(doing.where) and not doing.error


def _waits_for_gpu(doing: Activity) -> Activity:
    meaning = Meaning.GPU_FULL
    return doing._replace(
        kind=meaning.kind, meaning=meaning, waits=meaning.waits, label=meaning.words, native_would_tell=False
    )


def to_ask_natively(statuses: Collection[RankStatus]) -> tuple[int, ...]:
    """One rank of each point whose Python frames leave open what happens there, the points of most ranks first.

    Before them ranks that no look could read, for they change under the eye: in a job that stands still the busy one
    is most likely the one that the others wait for, and only a read that pauses it is whole.
    """
    present = [(one, one.activity) for one in statuses if one.present and one.activity is not None]
    torn = [one.rank for one, doing in present if doing.error == "torn" and not one.native][:MOST_TORN]
    known = {_point(one, doing) for one, doing in present if one.native}
    by_point: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for one, doing in present:
        if not doing.error and doing.native_would_tell and not doing.moving and _point(one, doing) not in known:
            by_point[_point(one, doing)].append(one.rank)
    groups = sorted(by_point.values(), key=lambda ranks: (-len(ranks), ranks))
    return (*torn, *(ranks[0] for ranks in groups[: MOST - len(torn)]))


def _point(status: RankStatus, doing: Activity) -> tuple[str, ...]:
    """What ranks must have in common for the native frames of one to speak for the others.

    Folded frames, innermost user frame with its line, whether the process runs, and what its GPU does.
    """
    return doing.place, doing.where, "R" if status.motion.state == "R" else "S", status.load
