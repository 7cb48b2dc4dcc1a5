"""A job that moves, but slowly: a rank that the others wait for again and again, or all of them waiting for data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import comb

from hangtop.diagnosis.evidence.gpu_load import FEW, spins_at
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, ranks_on, ranks_text
from hangtop.diagnosis.stacks.states import Activity, Meaning
from hangtop.diagnosis.tables.thresholds import (
    CHANCE,
    DATA_BOUND_SHARE,
    DOUBT,
    DOUBT_SHARE,
    STOOD_STILL_S,
    STRAGGLER_LOOKS,
    STRAGGLER_SHARE,
)
from hangtop.diagnosis.waits.evidence import stack_of
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.patience import OF_PAUSE
from hangtop.diagnosis.waits.rank_status import RankStatus, nodes_of, waits_for_others
from hangtop.diagnosis.waits.same_point import waits_for_gpu

ONE_WAIT_S, ONE_WAIT_SHARE = 5.0, 0.5
"""Seconds, and part of the time until the alarm, from which on one wait is no rhythm, though something moved lately."""
WORK_OF_MINUTES = frozenset({"compile", "evaluation", "checkpoint"})
"""Work that may take minutes in one call in which no frame is seen to move."""
ONE_LOOK_S = 5.0
"""Seconds of a pause within which several looks count as one."""
STARVED_SHARE = 50
"""Ours: per cent of its time for which a rank waits for a CPU, of a node with much more to do than it can."""
PAUSE_SLACK_S = 0.5
"""Ours: by so much a look and the signs by which a pause is known may be apart, as of one that a watch began within."""
A_STEP_S = 60.0
"""Seconds of a step, or of a usual pause, that looks must go beyond, at the most: older ones are not at hand."""


def straggler_rank(job_status: JobStatus) -> Iterator[Finding]:
    """straggler_rank: the job moves, its ranks wait in most looks, and this one in far fewer than chance would have it.

    Needs four looks or more at every rank, at any times, and no wait that lasts through all of them (that is a hang).
    Chance: that a rank which waits as often as the others is met so rarely while waiting, for any of the ranks.
    """
    seen = [] if _stands_still(job_status) else _seen(job_status)
    if len(seen) < 2:
        return
    waits, looks = _counted(seen)
    late = [one for one, chance in _chances(seen, STRAGGLER_SHARE) if chance < CHANCE]
    if any(_in_one_step(job_status.job, one, seen) or _in_one_pause(job_status.job, one) for one in late):
        return
    if all(one.waited_for_cpu >= STARVED_SHARE for one in seen):
        return  # who is last at a look is chance
    if not late or len(late) > max(1, len(seen) // 4):
        return
    ranks = tuple(one.rank for one in late)
    rest = [one for one in seen if one.rank not in ranks]
    share = sum(waits[one.rank] for one in rest) / sum(looks[one.rank] for one in rest)
    own = sum(waits[rank] for rank in ranks) / sum(looks[rank] for rank in ranks)
    where = _usual_place(late)
    stack = stack_of(late[0])
    yield Finding(
        "straggler_rank", "warning", 0.8 if share - own > STRAGGLER_SHARE else 0.65,
        f"the others wait for {ranks_on(ranks, (one.node for one in late))}"
         f" in {share:.0%} of the looks{f': {where}' if where else ''}",
        ranks=ranks, nodes=nodes_of(late),
        evidence=(
            *((stack,) if stack else ()),
            Evidence(
                f"py-spy, {sum(looks.values())} stacks", late[0].readings[-1].at,
                f"waiting: {ranks_text(ranks)} in {own:.0%} of their looks, the others in {share:.0%}",
            ),
        ),
        advice="Compare this rank with its peers: clocks and temperature of its GPU, its data, other processes on its "
        "node.",
    )  # fmt: skip


def _in_one_step(job: Job, status: RankStatus, seen: Iterable[RankStatus]) -> bool:
    """Every look met it at one place, and no step was told since the first of them: it may be one wait, of a hang.

    So it may where none was told at all, and nobody was seen to wait anew: of ranks that spin, or stood somewhere else.
    """
    step_at, looks = job.motion.last_step_at, status.readings
    if not job.live or len({look.where for look in looks}) > 1:
        return False
    if job.motion.last_step is None:
        return all(one.busy and len({look.where for look in one.readings}) == 1 for one in seen if one is not status)
    return step_at is not None and step_at < looks[0].at


def _in_one_pause(job: Job, status: RankStatus) -> bool:
    """All looks that met it at something else than waiting lie within one pause of the job: it was late but once."""
    late = [look.at for look in status.readings if not waits_for_others(look)]
    return bool(late) and any(
        began - PAUSE_SLACK_S <= min(late) and max(late) <= ended + PAUSE_SLACK_S for began, ended in job.pauses
    )


def _counted(seen: list[RankStatus]) -> tuple[dict[int, int], dict[int, int]]:
    """In how many looks each rank waited for others, and of how many: by rank."""
    waits = {one.rank: sum(waits_for_others(reading) for reading in one.readings) for one in seen}
    return waits, {one.rank: len(one.readings) for one in seen}


def _chances(seen: list[RankStatus], least: float) -> list[tuple[RankStatus, float]]:
    """Ranks for which others wait in ``least`` of their looks, with the chance that each is met so rarely waiting.

    One that serves the others waits for none of them in a collective, and is as quick as it is asked.
    """
    waits, looks = _counted(seen)
    all_looks, all_waits = sum(looks.values()), sum(waits.values())
    found = []
    for one in seen:
        others_looks, others_waits = all_looks - looks[one.rank], all_waits - waits[one.rank]
        if others_waits >= least * others_looks and not works_for_all(one) and not _serves(one):
            usual = (others_waits + 1) / (others_looks + 2)
            found.append((one, _at_most(waits[one.rank], looks[one.rank], usual) * len(seen)))
    return found


def works_for_all(status: RankStatus) -> bool:
    """It evaluates, saves or compiles in some of its looks: that is work of the job, not a slow rank.

    A quarter of them is enough: before and after it is as quick as the others, which waited meanwhile.
    """
    inside = sum(bool({look.kind, *look.context} & WORK_OF_MINUTES) for look in status.readings)
    return 0 < inside * 4 >= len(status.readings)


def _serves(status: RankStatus) -> bool:
    """Between two requests, or within one: an engine that generates for the others is no slow one of them."""
    return any(look.meaning is Meaning.SERVES for look in status.readings)


def data_bound(job_status: JobStatus) -> Iterator[Finding]:
    """data_bound: the job moves, and every rank spends most looks in loading data.

    Needs four looks or more at every rank, and more than names in the user's code: a look at something else, or a step.
    """
    seen = [] if _stands_still(job_status) else _seen(job_status)
    if not any(one.frozen is False for one in seen):
        return
    loading = _loading(seen)
    share = sum(loading.values()) / len(loading)
    if share < DATA_BOUND_SHARE or min(loading.values()) < DATA_BOUND_SHARE / 2:
        return
    told_by_names = all(reading.by_name for one in seen for reading in one.readings)
    if share == 1.0 and told_by_names and job_status.job.motion.last_step is None:
        return  # no step was met, or told: it may build an index of its data before it trains
    where = _usual_place(seen)
    yield Finding(
        "data_bound", "warning", 0.7,
        f"all {count(len(loading), 'rank')} load data in {share:.0%} of the looks{f': {where}' if where else ''}",
        ranks=tuple(sorted(loading)), nodes=nodes_of(seen),
        evidence=(
            Evidence(
                "py-spy", seen[0].readings[-1].at,
                f"{share:.0%} of {sum(len(one.readings) for one in seen)} stacks were in data loading",
            ),
        ),
        advice="More workers, a larger prefetch factor, or faster storage.",
    )  # fmt: skip


def judged(job_status: JobStatus) -> bool:
    """Whether the ranks were looked at often enough to tell a slow one, and none is in doubt."""
    if _stands_still(job_status):
        return len(_often(job_status.read)) > 1  # no rhythm, so nobody is late in it
    seen = _seen(job_status)
    return len(seen) > 1 and all(chance >= DOUBT for _, chance in _chances(seen, DOUBT_SHARE))


def _loading(seen: Iterable[RankStatus]) -> dict[int, float]:
    """In which share of its looks each rank loaded data: by rank."""
    return {
        one.rank: sum(reading.kind == "data" or "data" in reading.context for reading in one.readings)
        / len(one.readings)
        for one in seen
    }


def _seen(job_status: JobStatus) -> list[RankStatus]:
    """Ranks that were looked at often enough, in different waits; none where that is not most of the job.

    Without those whose data are over: they wait in each step for whoever has more, however quick that is.
    Nor where all looks lie within one step, as far as one knows how long these take: they met one and the same wait.
    """
    job = job_status.job
    read = [one for one in _told_by_gpus(job, job_status.read) if not _goes_along(one)]
    often = _often(read)
    if job.pauses and often:
        often = _often([one._replace(readings=_of_different_waits(job_status, one)) for one in read])
    ats = [look.at for one in often for look in one.readings]
    takes = min(A_STEP_S, max(job.motion.step_s or 0.0, job.usual_pause or 0.0)) if job.live else 0.0
    return often if ats and max(ats) - min(ats) >= takes else []


def _goes_along(status: RankStatus) -> bool:
    return any("joined" in look.context for look in status.readings)


def _told_by_gpus(job: Job, statuses: Sequence[RankStatus]) -> Sequence[RankStatus]:
    """The same, with looks that met a rank in a call that Python does not show, while its GPU spun, as waits for that.

    A job that goes on is not stopped for its native frames, and over NCCL most of its waits are such calls.
    """
    if not job.live or len(statuses) > FEW:
        return statuses
    told = []
    for one in statuses:
        owner = one.process
        looks = [
            waits_for_gpu(look)
            if owner is not None and look.native_would_tell and look.state == "R" and spins_at(job, owner, look.at)
            else look
            for look in one.readings
        ]
        told.append(one._replace(readings=looks))
    return told


def _often(dumped: Sequence[RankStatus]) -> list[RankStatus]:
    often = [one for one in dumped if len(one.readings) >= STRAGGLER_LOOKS]
    return often if len(often) * 4 >= len(dumped) * 3 else []


def _of_different_waits(job_status: JobStatus, status: RankStatus) -> Sequence[Activity]:
    """Its looks, of several within one long pause the last: they met one wait, which may be a save as well."""
    looks: Sequence[Activity] = status.readings
    for began, ended in job_status.job.pauses:
        if ended - began < ONE_LOOK_S:
            continue
        last = max((look.at for look in looks if began <= look.at <= ended), default=ended)
        looks = [look for look in looks if not began <= look.at < last]
    return looks


def _usual_place(statuses: list[RankStatus]) -> str:
    """Where these ranks were met most often while they did not wait for others."""
    places = Counter(
        reading.where for one in statuses for reading in one.readings if reading.where and not waits_for_others(reading)
    )
    return min(places, key=lambda place: (-places[place], place)) if places else ""


def _stands_still(job_status: JobStatus) -> bool:
    """One and the same wait lasted through all looks, or goes on now: it may become a hang, it is no rhythm.

    Live, the looks at hand may be from before the job came to stand, so what stands now counts. A pause that it takes
    again and again is its rhythm, as long as it is not far longer than usual: then the looks are of several.
    """
    job = job_status.job
    still, usual = job.stood_still or 0.0, job.usual_pause or 0.0
    in_rhythm = job.motion.moving is True and still < max(ONE_WAIT_S, ONE_WAIT_SHARE * job.alarm_after)
    if job.live and not job_status.hung and (in_rhythm or (still < OF_PAUSE * usual and _of_several(job_status))):
        return False
    pausing = job.live and still >= max(STOOD_STILL_S, usual)
    return job_status.hung or pausing or (job_status.graph is not None and job_status.graph.frozen)


def _of_several(job_status: JobStatus) -> bool:
    """Most looks at hand were taken before the present wait began."""
    began = job_status.job.now - (job_status.job.stood_still or 0.0)
    looks = [look.at for one in _seen(job_status) for look in one.readings]
    return 2 * sum(at < began for at in looks) > len(looks)


def _at_most(times: int, looks: int, share: float) -> float:
    """Probability of at most ``times`` hits in ``looks`` looks of which each hits with ``share``."""
    return sum(comb(looks, k) * share**k * (1 - share) ** (looks - k) for k in range(times + 1))
