"""Which rank launched fewer operations, or is gone, by NCCL's own counts: RAS while the job hangs, and COLL lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hangtop.diagnosis.collectives import counts
from hangtop.diagnosis.collectives.mismatch import mismatch
from hangtop.diagnosis.collectives.progress import Progress, leading
from hangtop.diagnosis.evidence.events import finished
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, listed, who
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.rules.not_launched import CODE, STACKS
from hangtop.diagnosis.waits.job_status import JobStatus

GONE = "The process ended, is stopped, or its node is cut off: look at it first."


def fewer_launched(job_status: JobStatus) -> Iterator[Finding]:
    """collective_mismatch and collective_size_mismatch by NCCL RAS and by NCCL's COLL lines.

    Live, COLL lines count only while the job stands still; ranks that are done have not all written their last lines.
    """
    job = job_status.job
    records = counts.progress_by_ras(job)
    yield from (_behind(job, one, Observer.RAS) for one in leading(records))
    stands = job_status.hung or (job.stood_still or 0.0) >= job_status.alarm_after
    if stands if job.live else not finished(job):
        lines = counts.progress_by_log(job)
        yield from (_behind(job, one, Observer.LOG) for one in leading(lines))
        for one in lines:
            if len({operation.seq for operation in one.last.values()}) == 1:
                yield from _differ(job, one)


def _behind(job: Job, one: Progress, observer: Observer) -> Finding:
    behind = one.behind
    return Finding(
        "collective_mismatch", "critical", 0.7 if 2 * len(behind) > len(one.last) else 0.85 if one.certain else 0.8,
        f"{listed([f'rank {rank} is at {_at(one, rank)}' for rank in behind])}, {_others(one, behind)}",
        ranks=behind, nodes=homes(job, behind) or _hosts(job, behind), evidence=_evidence(one, behind, observer),
        advice=STACKS if one.certain else CODE,
    )  # fmt: skip


def _differ(job: Job, one: Progress) -> Iterator[Finding]:
    """Ranks that launched something else at the last number of a communicator."""
    how = mismatch(one.last)
    if how is not None:
        odd = how.counted.odd_ranks
        size = how.what != "name"
        told = listed([f"rank {rank} is at {_at(one, rank, size=size)}" for rank in odd])
        others = f", {_others(one, odd, size=size)}" if len(odd) < len(one.last) else ""
        yield Finding(
            "collective_size_mismatch" if size else "collective_mismatch", "critical",
            0.6 if how.counted.tied else 0.8, f"{told}{others}",
            ranks=odd, nodes=homes(job, odd) or _hosts(job, odd), evidence=_evidence(one, odd, Observer.LOG),
            advice=CODE,
        )  # fmt: skip


def _others(one: Progress, odd: Iterable[int], *, size: bool = False) -> str:
    others = sorted(one.last.keys() - set(odd), key=lambda rank: -one.last[rank].seq)
    return f"{count(len(others), 'other')} at {_at(one, others[0], size=size)}"


def _at(one: Progress, rank: int, *, size: bool = False) -> str:
    operation = one.last[rank]
    return f"{operation.name} #{operation.seq}{f' of {operation.size} {operation.dtype}' if size else ''}"


def _evidence(one: Progress, odd: tuple[int, ...], observer: Observer) -> tuple[Evidence, ...]:
    shown = (*odd[:3], *sorted(one.last.keys() - set(odd))[:1])
    return tuple(
        Evidence(observer, one.last[rank].source, one.last[rank].since,
                 f"communicator {one.label}: rank {rank} at {_at(one, rank, size=True).rstrip()}")
        for rank in shown
    )  # fmt: skip


def _hosts(job: Job, ranks: tuple[int, ...]) -> tuple[str, ...]:
    """Hosts that lines of these ranks name."""
    return tuple(sorted({one.host for one in job.progress if one.global_rank in ranks and one.host}))


def ras_away(job_status: JobStatus) -> Iterator[Finding]:
    """rank_missing by NCCL RAS: ranks that every one of the last answers, two or more, could not find."""
    job = job_status.job
    for one in counts.away(job, 2 if job.live or finished(job) else 1):
        states = listed([f"rank {m.rank} of it ({m.host}, pid {m.pid}) {m.state}" for m in one.members])
        yield Finding(
            "rank_missing", "critical", 0.8 if one.surely else 0.5,
            f"NCCL does not find {who(one.ranks, count(len(one.members), 'process', 'processes'))} any more",
            ranks=one.ranks, nodes=homes(job, one.ranks),
            evidence=(Evidence(Observer.RAS, f"NCCL RAS, communicator {one.comm}", one.at, states),), advice=GONE,
        )  # fmt: skip
