"""A job that moves, but slowly: a rank for which the others wait again and again.

Samples of stacks decide; if they name no rank, figures of GPUs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import comb
from statistics import median

from hangtop.diagnosis.evidence.gpus import load_shares
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import OF_PAUSE, Job
from hangtop.diagnosis.phrasing import duration, ranks_on, ranks_text
from hangtop.diagnosis.tables.thresholds import STOOD_STILL_S
from hangtop.diagnosis.waits.evidence import stack_of
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import RankStatus, nodes_of, waits_for_others
from hangtop.diagnosis.waits.statuses import with_waits_of_many

LEAST_SAMPLES = 4
"""Ours: least number of samples of a rank; fewer cannot tell a straggler from chance."""
WAITS_SHARE = 0.6
"""Ours: least share of samples in which the others wait."""
CHANCE, DOUBT = 0.02, 0.2
"""Ours: a share that chance gives less often than once in fifty makes a straggler; up to once in five is a doubt."""
WORK_OF_MINUTES = frozenset({"compile", "evaluation", "checkpoint"})
"""Work that one rank may do for all ranks, for minutes."""
STARVED_SHARE = 50
"""Ours: per cent of the time that a rank waits for a CPU on a heavily overloaded node."""
PAUSE_SLACK_S = 0.5
"""Ours: tolerance in seconds between the time of a sample and the start or end of a pause."""
LONGEST_STEP_S = 60.0
"""Most seconds, of a step or a usual pause, that samples must span: older samples are not kept."""
LEAST_SPAN_S, STEPS, UNKNOWN_STEP_S = 15.0, 4.0, 7.5
"""Figures must span this many seconds and this many steps: within one step of a pipeline, ranks compute in turn. The
third is the assumed length of a step in seconds if no log shows it."""
WORKS_SHARE, IDLE_SHARE = 0.85, 0.5
"""Ours: least share of the time that the late rank works, and that the others wait: half of each step is lost."""
COMPARE = "Compare this rank with its peers: clocks and temperature of its GPU, its data, what else runs on its node."


def straggler_rank(job_status: JobStatus) -> Iterator[Finding]:
    """straggler_rank: the job moves, its ranks wait in most samples, and this rank in far fewer than by chance.

    If stacks name no rank, as over NCCL: the rank whose GPU works nearly always while the other ranks' GPUs wait for
    most of the time.
    """
    job, seen = job_status.job, _looked_at(job_status)
    late = [status for status, chance in _chances(seen) if chance < CHANCE]
    by_stacks = _few(len(late), len(seen)) and not any(_one_wait(job, status, seen) for status in late)
    starved = all(status.process is not None and status.process.waited_for_cpu >= STARVED_SHARE for status in seen)
    if not by_stacks or starved:  # if all ranks lack CPUs, the late one is chance
        if job.motion.moving and not job_status.hung:
            yield from _by_figures(job_status)
        return
    ranks = tuple(status.rank for status in late)
    waited, share = _share(late), _share([status for status in seen if status.rank not in ranks])
    readings = [reading for status in late for reading in status.readings if not waits_for_others(reading)]
    places = Counter(reading.where for reading in readings if reading.where)
    where, stack = max(sorted(places), key=lambda place: places[place], default=""), stack_of(late[0])
    proof = Evidence(
        Observer.STACKS, f"py-spy, {sum(len(status.readings) for status in seen)} stacks", late[0].readings[-1].at,
        f"waiting: {ranks_text(ranks)} in {waited:.0%} of their samples, the others in {share:.0%}",
    )  # fmt: skip
    yield _straggler(
        late, 0.8 if share - waited > WAITS_SHARE else 0.65,
        f"in {share:.0%} of the samples{f': {where}' if where else ''}", *((stack,) if stack else ()), proof,
    )  # fmt: skip


def _straggler(late: Sequence[RankStatus], weight: float, text: str, *evidence: Evidence) -> Finding:
    ranks, nodes = tuple(status.rank for status in late), nodes_of(late)
    return Finding(
        "straggler_rank", "warning", weight, f"the others wait for {ranks_on(ranks, nodes)} {text}",
        ranks=ranks, nodes=nodes, evidence=evidence, advice=COMPARE,
    )  # fmt: skip


def _few(late: int, ranks: int) -> bool:
    return 0 < late <= max(1, ranks // 4)


# --- by samples of stacks ------------------------------------------------------------------------------------------


def _chances(seen: Sequence[RankStatus]) -> list[tuple[RankStatus, float]]:
    """Ranks whose peers wait in most of their samples, each with the probability that it is no straggler.

    That is the probability that any rank which waits as often as the others is seen waiting so rarely.
    """
    chances = []
    for status in seen:
        others = [other for other in seen if other is not status]
        samples, waits = sum(len(other.readings) for other in others), sum(map(_waits, others))
        if others and waits >= WAITS_SHARE * samples and not _works_for_all(status):
            usual, number = (waits + 1) / (samples + 2), len(status.readings)
            rarely = sum(comb(number, k) * usual**k * (1 - usual) ** (number - k) for k in range(_waits(status) + 1))
            chances.append((status, rarely * len(seen)))
    return chances


def _waits(status: RankStatus) -> int:
    """In how many of its samples a rank waited for others."""
    return sum(waits_for_others(reading) for reading in status.readings)


def _share(statuses: Sequence[RankStatus]) -> float:
    return sum(map(_waits, statuses)) / sum(len(status.readings) for status in statuses)


def _one_wait(job: Job, status: RankStatus, seen: Sequence[RankStatus]) -> bool:
    """Whether all samples may show one wait, of a hang or a pause, instead of several steps.

    All samples that found the rank late lie within one pause of the job, past or present; or all found it at one
    place and no step was logged since the first (without logged steps: no other rank began a new wait).
    """
    samples = status.readings
    late = [sample.at for sample in samples if not waits_for_others(sample)]
    pauses = (*job.pauses, (job.now - (job.stood_still or 0.0), job.now))
    if late and any(a - PAUSE_SLACK_S <= min(late) and max(late) <= b + PAUSE_SLACK_S for a, b in pauses):
        return True
    if not job.live or len({sample.where for sample in samples}) > 1:
        return False
    if job.motion.last_step is None:
        return not any(other.frozen is False for other in seen if other is not status)
    return job.motion.last_step_at is not None and job.motion.last_step_at < samples[0].at


def _works_for_all(status: RankStatus) -> bool:
    """Whether the rank evaluates, saves or compiles in a quarter of its samples: then it is no straggler."""
    inside = sum(bool(sample.context & WORK_OF_MINUTES) for sample in status.readings)
    return 0 < inside * 4 >= len(status.readings)


def slowness_judged(job_status: JobStatus) -> bool:
    """Whether the ranks were looked at often enough to tell a straggler, and none is in doubt."""
    if _stands_still(job_status):
        return len(_often(job_status.read)) > 1  # without steps no rank is late
    seen = _looked_at(job_status)
    return len(seen) > 1 and all(chance >= DOUBT for _, chance in _chances(seen))


def _looked_at(job_status: JobStatus) -> list[RankStatus]:
    """Ranks with enough samples, which span more than a step; empty if that is not most of the job."""
    if _stands_still(job_status):
        return []
    job = job_status.job
    often = _often(with_waits_of_many(job, job_status.read))
    ats = [sample.at for status in often for sample in status.readings]
    takes = min(LONGEST_STEP_S, max(job.motion.step_s or 0.0, job.usual_pause or 0.0)) if job.live else 0.0
    return often if ats and max(ats) - min(ats) >= takes else []


def _often(read: Sequence[RankStatus]) -> list[RankStatus]:
    often = [status for status in read if len(status.readings) >= LEAST_SAMPLES]
    return often if len(often) * 4 >= len(read) * 3 else []


def _stands_still(job_status: JobStatus) -> bool:
    """Whether the present wait is far longer than the job's usual pauses: it may become a hang."""
    job, still = job_status.job, job_status.job.stood_still or 0.0
    if job.live and not job_status.hung and (job.motion.moving or still < OF_PAUSE * (job.usual_pause or 0.0)):
        return False
    return job_status.hung or job_status.graph.frozen or (job.live and still >= STOOD_STILL_S)


# --- by figures of GPUs ------------------------------------------------------------------------------------------


def _by_figures(job_status: JobStatus) -> Iterator[Finding]:
    """A straggler's GPU works nearly always, while the other ranks' GPUs wait for most of the time."""
    job = job_status.job
    span = max(LEAST_SPAN_S, STEPS * (job.motion.step_s or UNKNOWN_STEP_S))
    shares = load_shares(job, span)
    late = [job_status.statuses[rank] for rank, share in shares.items() if share["computing"] >= WORKS_SHARE]
    others = [share["spinning"] for share in shares.values() if share["computing"] < WORKS_SHARE]
    waited = median(others) if others else 0.0
    if _few(len(late), len(shares)) and waited >= IDLE_SHARE and not any(map(_works_for_all, late)):
        ranks, worked = [status.rank for status in late], median(shares[status.rank]["computing"] for status in late)
        text = f"{ranks_text(ranks)} worked for {worked:.0%} of it, the others waited for {waited:.0%}"
        proof = Evidence(Observer.GPU, f"nvidia-smi, {duration(span)}", job.now, text)
        yield _straggler(late, 0.65, f"for {waited:.0%} of the time", proof)


STATUS_RULES = (straggler_rank,)
