"""Which rank launched fewer operations, or is gone, by NCCL's own counts: RAS while the job hangs, and COLL lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collectors.samples.logs import CommProgress
from hangtop.diagnosis.collectives import ras
from hangtop.diagnosis.collectives.coll_log import OddCommunicator, odd_communicators
from hangtop.diagnosis.collectives.members import CommRankResolver
from hangtop.diagnosis.evidence.events import finished
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.phrasing import count, listed, who
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.rules.not_launched import CODE, STACKS
from hangtop.diagnosis.waits.job_status import JobStatus

GONE = "The process ended, is stopped, or its node is cut off: look at it first."


def ras_behind(job_status: JobStatus) -> Iterator[Finding]:
    """collective_mismatch by NCCL RAS: counts of one communicator differ, and stood still over three answers.

    RAS counts no sends and receives, so an even picture proves nothing.
    """
    job = job_status.job
    for one in ras.behind_in_job(job):
        least = [one.members[number] for number in one.least]
        ranks, most = job.once(CommRankResolver).of_members(least), len(one.members) - len(least)
        told = listed([f"rank {number}: {one.op} {value}" for number, value in sorted(one.counts.items())], 12)
        fewest, highest = min(one.counts.values()), max(one.counts.values())
        yield Finding(
            "collective_mismatch", "critical", 0.85 if len(least) <= most else 0.7,
            f"{who(ranks, f'{len(least)} processes')} launched {fewest} {one.op}, {count(most, 'other')} {highest}, "
            "and nothing moves",
            ranks=ranks, nodes=homes(job, ranks),
            evidence=(Evidence(Observer.RAS, f"NCCL RAS, communicator {one.comm}", one.at, told),), advice=STACKS,
        )  # fmt: skip


def ras_away(job_status: JobStatus) -> Iterator[Finding]:
    """rank_missing by NCCL RAS: ranks that every one of the last answers, two or more, could not find."""
    job, resolver = job_status.job, job_status.job.once(CommRankResolver)
    for one in ras.away(job.ras, 2 if job.live or finished(job) else 1):
        if not resolver.is_ours(one.members):
            continue
        ranks = resolver.of_members(one.members)
        states = listed([f"rank {m.rank} of it ({m.host}, pid {m.pid}) {m.state}" for m in one.members])
        yield Finding(
            "rank_missing", "critical", 0.8 if one.surely else 0.5,
            f"NCCL does not find {who(ranks, count(len(one.members), 'process', 'processes'))} any more",
            ranks=ranks, nodes=homes(job, ranks),
            evidence=(Evidence(Observer.RAS, f"NCCL RAS, communicator {one.comm}", one.at, states),), advice=GONE,
        )  # fmt: skip


def nccl_log_behind(job_status: JobStatus) -> Iterator[Finding]:
    """collective_mismatch and collective_size_mismatch by NCCL's COLL lines: ranks compared per communicator.

    Live, only while the job stands still; ranks that are done have not all written their last lines.
    """
    job = job_status.job
    stands = job_status.hung or (job.stood_still or 0.0) >= job_status.alarm_after
    if (job.live and not stands) or (not job.live and finished(job)):
        return
    closed = {event.data.get("comm_id") for _, event in job.events_of("nccl.end")}
    resolver = job.once(CommRankResolver)
    for odd in odd_communicators(one for one in job.progress if one.comm not in closed):
        if not resolver.is_ours(odd.latest.values()):
            continue
        accused = [odd.latest[number] for number in odd.accused]
        others: Sequence[CommProgress] = [one for number, one in odd.latest.items() if number not in odd.accused]
        told = listed([f"rank {one.rank if one.global_rank is None else one.global_rank} {_at(odd, one)}"
                       for one in accused])  # fmt: skip
        rest = f", {count(len(others), 'other')} {_at(odd, others[0])}" if others else ""
        yield Finding(
            "collective_size_mismatch" if odd.what == "size" else "collective_mismatch", "critical",
            0.6 if odd.counted.tied and odd.what != "behind" else 0.8,
            f"ranks are not at the same collective: {told}{rest}",
            ranks=tuple(sorted(rank for one in accused if (rank := resolver.of_progress(one)) is not None)),
            nodes=tuple(sorted({one.host for one in accused if one.host})),
            evidence=tuple(
                Evidence(Observer.LOG, f"{one.source}:{one.line}", one.at, f"communicator {one.comm}: {_at(odd, one)}")
                for one in (*accused[:3], *others[:1])
            ),
            advice=CODE,
        )  # fmt: skip


def _at(odd: OddCommunicator, one: CommProgress) -> str:
    size = f" of {one.elements} {one.dtype}" if odd.what == "size" else ""
    return f"at {one.op} #{odd.numbers[one.rank]}{size}"
