"""A job that moves, but slowly: one GPU computes all the time, and the others wait for it in their collectives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median

from hangtop.diagnosis.evidence.gpu_load import LoadShares, load_shares
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.phrasing import duration, ranks_on, ranks_text
from hangtop.diagnosis.rules.slow import judged, straggler_rank, works_for_all
from hangtop.diagnosis.tables.thresholds import LATE_COMPUTES_SHARE, STRAGGLER_SHARE
from hangtop.diagnosis.waits.job_status import JobStatus
from hangtop.diagnosis.waits.rank_status import nodes_of

LEAST_SPAN_S = 15.0
"""Seconds of GPU figures that are needed, …"""
STEPS = 4.0
"""… and so many steps: within one, in a pipeline say, now one computes and now another."""
DOUBT_SPAN_S = 8.0
"""Seconds of figures from which on it is worth to watch for as long as that takes."""


def straggling_gpu(job_status: JobStatus) -> Iterator[Finding]:
    """straggler_rank: the job moves, and one GPU computes nearly always while the others wait for it most of the time.

    Where all ranks wait for their own GPUs in each look, as over NCCL, stacks do not tell one from the other. Needs
    utilisation and power of one GPU a rank over :data:`STEPS` steps; who evaluates, saves or compiles is left out.
    """
    job = job_status.job
    takes = job.motion.step_s
    if takes is None or not job.motion.moving or job_status.hung:
        return
    span = max(LEAST_SPAN_S, STEPS * takes)
    shares = load_shares(job, span)
    late = _late(job_status, shares)
    if not late:
        return
    others = [share for rank, share in shares.items() if rank not in late]
    waited = median(share.spinning for share in others)
    statuses = [job_status.statuses[rank] for rank in late]
    if next(straggler_rank(job_status), None) is not None:
        return  # stacks have named one
    yield Finding(
        "straggler_rank", "warning", 0.65,
        f"the others' GPUs wait for that of {ranks_on(late, (one.node for one in statuses))} "
        f"{waited:.0%} of the time, which computes",
        ranks=tuple(late), nodes=nodes_of(statuses),
        evidence=(Evidence(f"nvidia-smi, {duration(span)}", job.now,
                           _told(late, shares, others, waited)),),
        advice="Compare this rank with its peers: clocks and temperature of its GPU, the size of its batches, and what "
        "else runs on that GPU.",
    )  # fmt: skip


def gpu_in_doubt(job_status: JobStatus) -> bool:
    """Whether one GPU seems to hold the others up, of which too little is known yet to say it."""
    job = job_status.job
    if job_status.hung or not job.live:
        return False
    needed = max(LEAST_SPAN_S, STEPS * (job.motion.step_s or 0.0))
    return not load_shares(job, needed) and bool(_late(job_status, load_shares(job, DOUBT_SPAN_S)))


def slowness_judged(job_status: JobStatus) -> bool:
    """Whether the ranks and their GPUs were looked at often enough to tell a slow one, and none is in doubt."""
    return judged(job_status) and not gpu_in_doubt(job_status)


def _late(job_status: JobStatus, shares: Mapping[int, LoadShares]) -> list[int]:
    """The few ranks whose GPUs compute nearly always while those of the others wait most of the time."""
    late = [rank for rank, share in shares.items() if share.computing >= LATE_COMPUTES_SHARE]
    if not late or len(late) > max(1, len(shares) // 4) or len(shares) < 2:
        return []
    if median(share.spinning for rank, share in shares.items() if rank not in late) < STRAGGLER_SHARE:
        return []
    statuses = [job_status.statuses[rank] for rank in late if rank in job_status.statuses]
    return [] if len(statuses) < len(late) or any(works_for_all(one) for one in statuses) else late


def _told(late: list[int], shares: dict[int, LoadShares], others: list[LoadShares], waited: float) -> str:
    own = median(shares[rank].computing for rank in late)
    rest = median(share.computing for share in others)
    beside = f"the others {rest:.0%}, and were full at little power {waited:.0%}"
    return f"{ranks_text(late)} computed {own:.0%} of it; {beside}"
