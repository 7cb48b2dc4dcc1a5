"""A job that moves, but slowly: a rank that the others wait for again and again, or all of them waiting for data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import comb
from statistics import median

from hangtop.diagnosis.evidence.gpu_load import LoadShares, load_shares
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, duration, ranks_on, ranks_text
from hangtop.diagnosis.stacks.states import Meaning
from hangtop.diagnosis.tables.thresholds import (
    CHANCE,
    DATA_BOUND_SHARE,
    DOUBT,
    DOUBT_SHARE,
    LATE_COMPUTES_SHARE,
    STOOD_STILL_S,
    STRAGGLER_LOOKS,
    STRAGGLER_SHARE,
)
from hangtop.diagnosis.waits.evidence import stack_of
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.native import told_by_peers
from hangtop.diagnosis.waits.patience import OF_PAUSE
from hangtop.diagnosis.waits.rank_status import RankStatus, nodes_of, waits_for_others

ONE_WAIT_S, ONE_WAIT_SHARE = 5.0, 0.5
"""Seconds, and part of the time until the alarm, from which on one wait is no rhythm, though something moved lately."""
WORK_OF_MINUTES = frozenset({"compile", "evaluation", "checkpoint"})
"""Work that may take minutes in one call in which no frame is seen to move."""
STARVED_SHARE = 50
"""Ours: per cent of its time for which a rank waits for a CPU, where a node has much more to do than it can."""
PAUSE_SLACK_S = 0.5
"""Ours: by so much a look and the signs by which a pause is known may be apart, as of one that a watch began within."""
A_STEP_S = 60.0
"""Seconds of a step, or of a usual pause, that looks must go beyond, at the most: older ones are not at hand."""
LEAST_SPAN_S, STEPS, UNKNOWN_STEP_S = 15.0, 4.0, 7.5
"""Seconds of GPU figures that are needed, and so many steps: within one, in a pipeline say, now one computes and now
another. What a step is taken to last where no log tells."""
DOUBT_SPAN_S = 8.0
"""Seconds of figures from which on it is worth to watch for as long as that takes."""
OTHERS_SPIN_SHARE = 0.5
"""Ours: least share of the time for which the other GPUs wait for one: half a step, or more, is lost."""
COMPARE = "Compare this rank with its peers: clocks and temperature of its GPU, its data, what else runs on its node."


def straggler_rank(job_status: JobStatus) -> Iterator[Finding]:
    """straggler_rank: the job moves, its ranks wait in most looks, and this one in far fewer than chance would have it.

    Needs four looks or more at every rank, at any times, and no wait that lasts through all of them (that is a hang).
    Chance: that a rank which waits as often as the others is met so rarely while waiting, for any of the ranks. Where
    stacks name none, one GPU that computes nearly always while the others wait for it most of the time names its rank.
    """
    seen = _seen(job_status)
    late = [one for one, chance in _chances(seen, STRAGGLER_SHARE) if chance < CHANCE]
    job = job_status.job
    if any(_in_one_step(job, one, seen) or _in_one_pause(job, one) for one in late) or all(
        one.waited_for_cpu >= STARVED_SHARE for one in seen
    ):
        late = []  # they may be stuck, or were late but once; or who is last at a look is chance
    if not late or len(late) > max(1, len(seen) // 4):
        yield from _straggling_gpu(job_status)
        return
    ranks = tuple(one.rank for one in late)
    own, share = _share(late), _share([one for one in seen if one.rank not in ranks])
    where, stack = _usual_place(late), stack_of(late[0])
    looks = sum(len(one.readings) for one in seen)
    yield Finding(
        "straggler_rank", "warning", 0.8 if share - own > STRAGGLER_SHARE else 0.65,
        f"the others wait for {ranks_on(ranks, (one.node for one in late))}"
         f" in {share:.0%} of the looks{f': {where}' if where else ''}",
        ranks=ranks, nodes=nodes_of(late),
        evidence=(
            *((stack,) if stack else ()),
            Evidence(
                f"py-spy, {looks} stacks", late[0].readings[-1].at,
                f"waiting: {ranks_text(ranks)} in {own:.0%} of their looks, the others in {share:.0%}",
            ),
        ),
        advice=COMPARE,
    )  # fmt: skip


def _in_one_step(job: Job, status: RankStatus, seen: Sequence[RankStatus]) -> bool:
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


def _waits(status: RankStatus) -> int:
    """In how many of its looks a rank waited for others."""
    return sum(waits_for_others(reading) for reading in status.readings)


def _share(statuses: Sequence[RankStatus]) -> float:
    return sum(map(_waits, statuses)) / sum(len(one.readings) for one in statuses)


def _chances(seen: Sequence[RankStatus], least: float) -> list[tuple[RankStatus, float]]:
    """Ranks for which others wait in ``least`` of their looks, with the chance that each is met so rarely waiting.

    One that evaluates, saves, compiles or generates for the others does work of the job.
    """
    found = []
    for one in seen:
        others = [other for other in seen if other is not one]
        looks, waits = sum(len(other.readings) for other in others), sum(map(_waits, others))
        if others and waits >= least * looks and not _works_for_all(one):
            usual = (waits + 1) / (looks + 2)
            found.append((one, _at_most(_waits(one), len(one.readings), usual) * len(seen)))
    return found


def _works_for_all(status: RankStatus) -> bool:
    """It evaluates, saves or compiles in some of its looks, or serves what the others ask for: no slow rank.

    A quarter of them is enough: before and after it is as quick as the others, which waited meanwhile.
    """
    inside = sum(bool({look.kind, *look.context} & WORK_OF_MINUTES) for look in status.readings)
    return 0 < inside * 4 >= len(status.readings) or any(look.meaning is Meaning.SERVES for look in status.readings)


def data_bound(job_status: JobStatus) -> Iterator[Finding]:
    """data_bound: the job moves, and every rank spends most looks in loading data.

    Needs four looks or more at every rank, and more than names in the user's code: a look at something else, or a step.
    """
    seen = _seen(job_status)
    if not any(one.frozen is False for one in seen):
        return
    loading = {
        one.rank: sum(look.kind == "data" or "data" in look.context for look in one.readings) / len(one.readings)
        for one in seen
    }
    share = sum(loading.values()) / len(loading)
    if share < DATA_BOUND_SHARE or min(loading.values()) < DATA_BOUND_SHARE / 2:
        return
    told_by_names = all(reading.by_name for one in seen for reading in one.readings)
    if share == 1.0 and told_by_names and job_status.job.motion.last_step is None:
        return  # no step was met, or told: it may build an index of its data before it trains
    where = _usual_place(seen)
    looks = sum(len(one.readings) for one in seen)
    yield Finding(
        "data_bound", "warning", 0.7,
        f"all {count(len(loading), 'rank')} load data in {share:.0%} of the looks{f': {where}' if where else ''}",
        ranks=tuple(sorted(loading)), nodes=nodes_of(seen),
        evidence=(
            Evidence("py-spy", seen[0].readings[-1].at, f"{share:.0%} of {looks} stacks were in data loading"),
        ),
        advice="More workers, a larger prefetch factor, or faster storage.",
    )  # fmt: skip


def slowness_judged(job_status: JobStatus) -> bool:
    """Whether the ranks and their GPUs were looked at often enough to tell a slow one, and none is in doubt."""
    if _gpu_in_doubt(job_status):
        return False
    if _stands_still(job_status):
        return len(_often(job_status.read)) > 1  # no rhythm, so nobody is late in it
    seen = _seen(job_status)
    return len(seen) > 1 and all(chance >= DOUBT for _, chance in _chances(seen, DOUBT_SHARE))


def _seen(job_status: JobStatus) -> list[RankStatus]:
    """Ranks that were looked at often enough, in different waits; none where that is not most of the job.

    Without those whose data are over: they wait in each step for whoever has more, however quick that is.
    Nor where all looks lie within one step, as far as one knows how long these take: they met one and the same wait.
    """
    if _stands_still(job_status):
        return []
    job = job_status.job
    read = [one for one in job_status.read if not any("joined" in look.context for look in one.readings)]
    often = _often(told_by_peers(job, read))
    ats = [look.at for one in often for look in one.readings]
    takes = min(A_STEP_S, max(job.motion.step_s or 0.0, job.usual_pause or 0.0)) if job.live else 0.0
    return often if ats and max(ats) - min(ats) >= takes else []


def _often(read: Sequence[RankStatus]) -> list[RankStatus]:
    often = [one for one in read if len(one.readings) >= STRAGGLER_LOOKS]
    return often if len(often) * 4 >= len(read) * 3 else []


def _usual_place(statuses: Sequence[RankStatus]) -> str:
    """Where these ranks were met most often while they did not wait for others."""
    places = Counter(
        reading.where for one in statuses for reading in one.readings if reading.where and not waits_for_others(reading)
    )
    return min(places, key=lambda place: (-places[place], place)) if places else ""


def _stands_still(job_status: JobStatus) -> bool:
    """One and the same wait lasted through all looks, or goes on now: it may become a hang, it is no rhythm.

    Live, the looks at hand may be from before the job came to stand, so what stands now counts. A pause that it takes
    again and again is its rhythm, as long as it is not far longer than usual.
    """
    job = job_status.job
    still, usual = job.stood_still or 0.0, job.usual_pause or 0.0
    in_rhythm = job.motion.moving is True and still < max(ONE_WAIT_S, ONE_WAIT_SHARE * job.alarm_after)
    if job.live and not job_status.hung and (in_rhythm or still < OF_PAUSE * usual):
        return False
    pausing = job.live and still >= max(STOOD_STILL_S, usual)
    return job_status.hung or pausing or (job_status.graph is not None and job_status.graph.frozen)


def _straggling_gpu(job_status: JobStatus) -> Iterator[Finding]:
    """Where all ranks wait for their own GPUs in each look, as over NCCL, stacks do not tell one from the other.

    Needs utilisation and power of one GPU a rank over :data:`STEPS` steps; a rank that evaluates or saves is left out.
    """
    job = job_status.job
    if not job.motion.moving or job_status.hung:
        return
    span = _span(job)
    shares = load_shares(job, span)
    late = _late(job_status, shares)
    if not late:
        return
    statuses = [job_status.statuses[rank] for rank in late]
    others = [share for rank, share in shares.items() if rank not in late]
    waited, rest = median(share.spinning for share in others), median(share.computing for share in others)
    own = median(shares[rank].computing for rank in late)
    yield Finding(
        "straggler_rank", "warning", 0.65,
        f"the others' GPUs wait for that of {ranks_on(late, (one.node for one in statuses))} "
        f"{waited:.0%} of the time, which computes",
        ranks=tuple(late), nodes=nodes_of(statuses),
        evidence=(
            Evidence(
                f"nvidia-smi, {duration(span)}", job.now,
                f"{ranks_text(late)} computed {own:.0%} of it; the others {rest:.0%}, and were full at little power "
                f"{waited:.0%}",
            ),
        ),
        advice=COMPARE,
    )  # fmt: skip


def _span(job: Job) -> float:
    """Seconds of GPU figures that tell one rank from the others."""
    return max(LEAST_SPAN_S, STEPS * (job.motion.step_s or UNKNOWN_STEP_S))


def _gpu_in_doubt(job_status: JobStatus) -> bool:
    """Whether one GPU seems to hold the others up, of which too little is known yet to say it."""
    job = job_status.job
    if job_status.hung or not job.live or load_shares(job, _span(job)):
        return False
    return bool(_late(job_status, load_shares(job, DOUBT_SPAN_S)))


def _late(job_status: JobStatus, shares: Mapping[int, LoadShares]) -> list[int]:
    """The few ranks whose GPUs compute nearly always while those of the others wait most of the time."""
    late = [rank for rank, share in shares.items() if share.computing >= LATE_COMPUTES_SHARE]
    if not late or len(late) > max(1, len(shares) // 4) or len(shares) < 2:
        return []
    if median(share.spinning for rank, share in shares.items() if rank not in late) < OTHERS_SPIN_SHARE:
        return []
    return [] if any(_works_for_all(job_status.statuses[rank]) for rank in late) else late


def _at_most(times: int, looks: int, share: float) -> float:
    """Probability of at most ``times`` hits in ``looks`` looks of which each hits with ``share``."""
    return sum(comb(looks, k) * share**k * (1 - share) ** (looks - k) for k in range(times + 1))
