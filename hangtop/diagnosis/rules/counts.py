"""What counts of operations prove, by NCCL's RAS and its COLL lines: ranks behind the others, or not found any more."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.samples.logs import CommProgress
from hangtop.diagnosis.collectives import ras
from hangtop.diagnosis.collectives.coll_log import OddCommunicator, odd_communicators
from hangtop.diagnosis.collectives.members import CommRankResolver
from hangtop.diagnosis.evidence.events import finished
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.phrasing import count, listed, ranks_text, who
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.waits.job_status import JobStatus

CODE = "Look for a collective behind `if rank == …`, ranks with a different number of batches, or shapes that differ."
GONE = "The process ended, is stopped, or its node is cut off: look at it first."


def ras_behind(job_status: JobStatus) -> Iterator[Finding]:
    """collective_mismatch by NCCL RAS: counts of one communicator differ, and stood still over three answers.

    Needs three RAS answers; RAS counts no sends and receives, so an even picture proves nothing.
    """
    job = job_status.job
    for one in ras.behind_in_job(job):
        least = [one.members[number] for number in one.least]
        ranks, most = job.once(CommRankResolver).of_members(least), len(one.members) - len(least)
        by_count = {
            value: [n for n, own in sorted(one.counts.items()) if own == value] for value in one.counts.values()
        }
        told = "; ".join(f"{ranks_text(members)}: {one.op} {value}" for value, members in sorted(by_count.items()))
        yield Finding(
            "collective_mismatch", "critical", 0.85 if len(least) <= most else 0.7,
            f"{who(ranks, f'{len(least)} processes')} launched {min(by_count)} {one.op}, "
            f"{count(most, 'other')} {max(by_count)}, and nothing moves",
            ranks=ranks, nodes=homes(job, ranks),
            evidence=(Evidence(f"NCCL RAS, communicator {one.comm}", one.at, told),),
            advice="These ranks have not launched what the others wait in: look at their stacks.",
        )  # fmt: skip


def ras_away(job_status: JobStatus) -> Iterator[Finding]:
    """rank_missing by NCCL RAS: ranks that every one of the last answers could not find.

    Needs two RAS answers or more, or the one that was saved of a job that is over.
    """
    job = job_status.job
    for one in ras.away(job.ras, 2 if job.live or finished(job) else 1):
        resolver = job.once(CommRankResolver)
        if not resolver.is_ours(one.members):
            continue
        ranks = resolver.of_members(one.members)
        states = listed([f"rank {m.rank} of it ({m.host}, pid {m.pid}) {m.state}" for m in one.members])
        yield Finding(
            "rank_missing", "critical", 0.8 if one.surely else 0.5,
            f"NCCL does not find {who(ranks, count(len(one.members), 'process', 'processes'))} any more",
            ranks=ranks, nodes=homes(job, ranks),
            evidence=(Evidence(f"NCCL RAS, communicator {one.comm}", one.at, states),), advice=GONE,
        )  # fmt: skip


def nccl_log_behind(job_status: JobStatus) -> Iterator[Finding]:
    """collective_mismatch and collective_size_mismatch by NCCL's COLL lines: ranks compared per communicator.

    Needs NCCL_DEBUG=INFO with the subsystem COLL on all ranks of a communicator. Live, only while the job stands still.
    """
    job = job_status.job
    if job.live and not (job_status.hung or (job.stood_still or 0.0) >= job_status.alarm_after):
        return
    if not job.live and finished(job):
        return  # ranks that are done have not all written their last lines
    closed = {event.data.get("comm_id") for _, event in job.events_of("nccl.end")}
    for odd in odd_communicators(one for one in job.progress if one.comm not in closed):
        resolver = job.once(CommRankResolver)
        if not resolver.is_ours(odd.latest.values()):
            continue
        accused = [odd.latest[number] for number in odd.accused]
        told = listed(
            [f"rank {one.rank if one.global_rank is None else one.global_rank} {_at(odd, one)}" for one in accused]
        )
        rest = [one for number, one in sorted(odd.latest.items()) if number not in odd.accused][:1]
        others = f", {count(len(odd.latest) - len(accused), 'other')} {_at(odd, rest[0])}" if rest else ""
        yield Finding(
            "collective_size_mismatch" if odd.what == "size" else "collective_mismatch", "critical",
            0.6 if odd.counted.tied and odd.what != "behind" else 0.8,
            f"ranks are not at the same collective: {told}{others}",
            ranks=tuple(sorted(rank for one in accused if (rank := resolver.of_progress(one)) is not None)),
            nodes=tuple(sorted({one.host for one in accused if one.host})),
            evidence=tuple(
                Evidence(f"{one.source}:{one.line}", one.at, f"communicator {one.comm}: {_at(odd, one)}")
                for one in (*accused[:3], *rest)
            ),
            advice=CODE,
        )  # fmt: skip


def _at(odd: OddCommunicator, one: CommProgress) -> str:
    size = f" of {one.elements} {one.dtype}" if odd.what == "size" else ""
    return f"at {one.op} #{odd.numbers[one.rank]}{size}"
