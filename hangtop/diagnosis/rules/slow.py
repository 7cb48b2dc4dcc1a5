"""A job that moves, but slowly: a rank for which the others wait again and again, by looks at stacks or by GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import comb
from statistics import median

from hangtop.diagnosis.evidence.gpus import LoadShares, load_shares
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import OF_PAUSE, Job
from hangtop.diagnosis.phrasing import duration, ranks_on, ranks_text
from hangtop.diagnosis.stacks.states import Meaning
from hangtop.diagnosis.tables.thresholds import STOOD_STILL_S
from hangtop.diagnosis.waits.evidence import stack_of
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import RankStatus, nodes_of, waits_for_others
from hangtop.diagnosis.waits.statuses import with_waits_of_many

STRAGGLER_LOOKS = 4
"""Ours: fewer looks cannot tell one rank from chance."""
STRAGGLER_SHARE = 0.6
"""Ours: least share of looks in which the others wait."""
LATE_COMPUTES_SHARE = 0.85
"""Ours: least share of the time that a GPU computes for which the others wait: between its steps it waits, too."""
DOUBT_SHARE = 0.4
"""Ours: the same of few looks, of which more would tell."""
CHANCE = 0.02
"""Ours: a share that chance gives less often than once in fifty is not chance. Once in twenty accuses one healthy
job in so many: of two ranks, looked at four times each, one waited three times and the other never."""
DOUBT = 0.2
"""Ours: what chance gives less often than once in five is worth a few more looks before it is called chance."""
ONE_WAIT_S, ONE_WAIT_SHARE = 5.0, 0.5
"""Seconds, and part of the time until the alarm, from which on one wait is no rhythm, though something moved lately."""
WORK_OF_MINUTES = frozenset({"compile", "evaluation", "checkpoint"})
"""Work that one rank may do for all of them, for minutes."""
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

    Where stacks name none, as over NCCL, one GPU that computes nearly always while the others wait for it most of the
    time names its rank.
    """
    job, seen = job_status.job, _looked_at(job_status)
    late = [one for one, chance in _chances(seen, STRAGGLER_SHARE) if chance < CHANCE]
    by_stacks = 0 < len(late) <= max(1, len(seen) // 4) and not any(_late_once(job, one, seen) for one in late)
    starved = all(one.process is not None and one.process.waited_for_cpu >= STARVED_SHARE for one in seen)
    if not by_stacks or starved:  # where all lack CPUs, who is last at a look is chance
        yield from _straggling_gpu(job_status)
        return
    ranks = tuple(one.rank for one in late)
    own, share = _share(late), _share([one for one in seen if one.rank not in ranks])
    places = Counter(look.where for one in late for look in one.readings if look.where and not waits_for_others(look))
    where, stack = max(sorted(places), key=lambda place: places[place], default=""), stack_of(late[0])
    told = Evidence(
        Observer.STACKS, f"py-spy, {sum(len(one.readings) for one in seen)} stacks", late[0].readings[-1].at,
        f"waiting: {ranks_text(ranks)} in {own:.0%} of their looks, the others in {share:.0%}",
    )  # fmt: skip
    yield Finding(
        "straggler_rank", "warning", 0.8 if share - own > STRAGGLER_SHARE else 0.65,
        f"the others wait for {ranks_on(ranks, nodes_of(late))} in {share:.0%} of the looks"
        f"{f': {where}' if where else ''}",
        ranks=ranks, nodes=nodes_of(late), evidence=(*((stack,) if stack else ()), told), advice=COMPARE,
    )  # fmt: skip


def _chances(seen: Sequence[RankStatus], least: float) -> list[tuple[RankStatus, float]]:
    """Ranks for which others wait in ``least`` of their looks, each with a chance.

    It is the chance that any rank which waits as often as the others is met so rarely while waiting.
    """
    found = []
    for one in seen:
        others = [other for other in seen if other is not one]
        looks, waits = sum(len(other.readings) for other in others), sum(map(_waits, others))
        if others and waits >= least * looks and not _works_for_all(one):
            usual, own = (waits + 1) / (looks + 2), len(one.readings)
            rarely = sum(comb(own, k) * usual**k * (1 - usual) ** (own - k) for k in range(_waits(one) + 1))
            found.append((one, rarely * len(seen)))
    return found


def _waits(status: RankStatus) -> int:
    """In how many of its looks a rank waited for others."""
    return sum(waits_for_others(reading) for reading in status.readings)


def _share(statuses: Sequence[RankStatus]) -> float:
    return sum(map(_waits, statuses)) / sum(len(one.readings) for one in statuses)


def _late_once(job: Job, status: RankStatus, seen: Sequence[RankStatus]) -> bool:
    """All looks may be of one wait, of a hang or a pause, and not of several steps.

    Every look met it at one place, and no step was told since the first of them; or nobody was seen to wait anew where
    no step is told at all; or all looks that met it late lie within one pause of the job, or the present one.
    """
    looks = status.readings
    late = [look.at for look in looks if not waits_for_others(look)]
    pauses = (*job.pauses, (job.now - (job.stood_still or 0.0), job.now))
    if late and any(a - PAUSE_SLACK_S <= min(late) and max(late) <= b + PAUSE_SLACK_S for a, b in pauses):
        return True
    if not job.live or len({look.where for look in looks}) > 1:
        return False
    if job.motion.last_step is None:
        return all(
            one.motion.busy and len({look.where for look in one.readings}) == 1 for one in seen if one is not status
        )
    return job.motion.last_step_at is not None and job.motion.last_step_at < looks[0].at


def _works_for_all(status: RankStatus) -> bool:
    """It evaluates, saves or compiles in a quarter of its looks, or serves what the others ask for: no slow rank."""
    inside = sum(bool({look.kind, *look.context} & WORK_OF_MINUTES) for look in status.readings)
    return 0 < inside * 4 >= len(status.readings) or any(look.meaning is Meaning.SERVES for look in status.readings)


def slowness_judged(job_status: JobStatus) -> bool:
    """Whether the ranks and their GPUs were looked at often enough to tell a slow one, and none is in doubt."""
    job = job_status.job
    few_figures = not job_status.hung and job.live and not load_shares(job, _span(job))
    if few_figures and _late_gpus(job_status, load_shares(job, DOUBT_SPAN_S)):
        return False  # one GPU seems to hold the others up, of which too little is known yet
    if _stands_still(job_status):
        return len(_often(job_status.read)) > 1  # no rhythm, so nobody is late in it
    seen = _looked_at(job_status)
    return len(seen) > 1 and all(chance >= DOUBT for _, chance in _chances(seen, DOUBT_SHARE))


def _looked_at(job_status: JobStatus) -> list[RankStatus]:
    """Ranks that were looked at often enough, over more than a step; none where that is not most of the job.

    Without those whose data are over: they wait in each step for whoever has more, however quick that is.
    """
    if _stands_still(job_status):
        return []
    job = job_status.job
    read = [one for one in job_status.read if not any("joined" in look.context for look in one.readings)]
    often = _often(with_waits_of_many(job, read))
    ats = [look.at for one in often for look in one.readings]
    takes = min(A_STEP_S, max(job.motion.step_s or 0.0, job.usual_pause or 0.0)) if job.live else 0.0
    return often if ats and max(ats) - min(ats) >= takes else []


def _often(read: Sequence[RankStatus]) -> list[RankStatus]:
    often = [one for one in read if len(one.readings) >= STRAGGLER_LOOKS]
    return often if len(often) * 4 >= len(read) * 3 else []


def _stands_still(job_status: JobStatus) -> bool:
    """One and the same wait lasted through all looks, or goes on now: it may become a hang, it is no rhythm.

    A pause that the job takes again and again is its rhythm, as long as it is not far longer than usual.
    """
    job = job_status.job
    still, usual = job.stood_still or 0.0, job.usual_pause or 0.0
    in_rhythm = job.motion.moving is True and still < max(ONE_WAIT_S, ONE_WAIT_SHARE * job.alarm_after)
    if job.live and not job_status.hung and (in_rhythm or still < OF_PAUSE * usual):
        return False
    pausing = job.live and still >= max(STOOD_STILL_S, usual)
    return job_status.hung or pausing or (job_status.graph is not None and job_status.graph.frozen)


# --- by GPUs -----------------------------------------------------------------------------------------------------


def _straggling_gpu(job_status: JobStatus) -> Iterator[Finding]:
    job = job_status.job
    span = _span(job)
    shares = load_shares(job, span) if job.motion.moving and not job_status.hung else {}
    if late := _late_gpus(job_status, shares):
        nodes = nodes_of([job_status.statuses[rank] for rank in late])
        waited = median(share.spinning for rank, share in shares.items() if rank not in late)
        own = median(shares[rank].computing for rank in late)
        text = f"{ranks_text(late)} computed {own:.0%} of it, the others were spinning {waited:.0%}"
        yield Finding(
            "straggler_rank", "warning", 0.65,
            f"the others' GPUs wait {waited:.0%} of the time for that of {ranks_on(late, nodes)}, which computes",
            ranks=tuple(late), nodes=nodes,
            evidence=(Evidence(Observer.GPU, f"nvidia-smi, {duration(span)}", job.now, text),), advice=COMPARE,
        )  # fmt: skip


def _span(job: Job) -> float:
    """Seconds of GPU figures that tell one rank from the others."""
    return max(LEAST_SPAN_S, STEPS * (job.motion.step_s or UNKNOWN_STEP_S))


def _late_gpus(job_status: JobStatus, shares: Mapping[int, LoadShares]) -> list[int]:
    """The few ranks whose GPUs compute nearly always while those of the others wait most of the time."""
    late = [rank for rank, share in shares.items() if share.computing >= LATE_COMPUTES_SHARE]
    if not late or len(late) > max(1, len(shares) // 4) or len(shares) < 2:
        return []
    if median(share.spinning for rank, share in shares.items() if rank not in late) < OTHERS_SPIN_SHARE:
        return []
    return [] if any(_works_for_all(job_status.statuses[rank]) for rank in late) else late


STATUS_RULES = (straggler_rank,)
