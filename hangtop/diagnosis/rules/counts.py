"""What counts of operations prove, by NCCL's RAS and its COLL lines: ranks behind the others, or not found any more."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.samples.logs import CommProgress
from hangtop.diagnosis.evidence.events import finished
from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.groups import launched, ras
from hangtop.diagnosis.groups.counters import told_by_ras
from hangtop.diagnosis.groups.owners import Owners
from hangtop.diagnosis.groups.ras_events import lost, of_the_wait, words
from hangtop.diagnosis.phrasing import count, listed, ranks_text, who
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.waits.job_status import JobStatus

CODE = "Look for a collective behind `if rank == …`, ranks with a different number of batches, or shapes that differ."


def ras_behind(job_status: JobStatus) -> Iterator[Finding]:
    """collective_mismatch by NCCL RAS: counts of one communicator differ, and stood still over three answers.

    Needs three RAS answers; RAS counts no sends and receives, so an even picture proves nothing.
    """
    owners = job_status.job.once(Owners)
    for one in told_by_ras(job_status.job):
        least = [one.members[number] for number in one.least]
        most = len(one.members) - len(least)
        ranks = owners.of_members(least)
        values = one.counts
        yield Finding(
            "collective_mismatch", "critical", 0.85 if len(least) <= most else 0.7,
            f"{who(ranks, f'{len(least)} processes')} launched {min(values.values())} {one.op}, "
            f"{count(most, 'other')} {max(values.values())}, and nothing moves",
            ranks=ranks, nodes=homes(job_status.job, ranks),
            evidence=(Evidence(f"NCCL RAS, communicator {one.comm}", one.at, _counts(one)),),
            advice="These ranks have not launched what the others wait in: look at their stacks.",
        )  # fmt: skip


def ras_away(job_status: JobStatus) -> Iterator[Finding]:
    """rank_missing by NCCL RAS: ranks that every one of the last answers could not find.

    Needs two RAS answers or more, or the one that was saved of a job that is over.
    """
    owners = job_status.job.once(Owners)
    least = 2 if job_status.job.live or finished(job_status.job) else 1
    for one in ras.away(job_status.job.ras, least):
        if not owners.is_ours(one.members):
            continue
        ranks = owners.of_members(one.members)
        states = listed([f"rank {m.rank} of it ({m.host}, pid {m.pid}) {m.state}" for m in one.members])
        yield Finding(
            "rank_missing", "critical", 0.8 if one.surely else 0.5,
            f"NCCL does not find {who(ranks, count(len(one.members), 'process', 'processes'))} any more",
            ranks=ranks, nodes=homes(job_status.job, ranks),
            evidence=(Evidence(f"NCCL RAS, communicator {one.comm}", one.at, states),),
            advice="The process ended or its node is cut off: look at it first.",
        )  # fmt: skip


def nccl_log_behind(job_status: JobStatus) -> Iterator[Finding]:
    """collective_mismatch and collective_size_mismatch by NCCL's COLL lines: ranks compared per communicator.

    Needs NCCL_DEBUG=INFO with the subsystem COLL on all ranks of a communicator. Live, only while the job stands still.
    """
    if job_status.job.live and not (job_status.hung or (job_status.job.stood_still or 0.0) >= job_status.alarm_after):
        return
    if not job_status.job.live and finished(job_status.job):
        return  # ranks that are done have not all written their last lines
    closed = {event.data.get("comm_id") for _, event in job_status.job.events_of("nccl.end")}
    owners = job_status.job.once(Owners)
    for odd in launched.odd_ones(one for one in job_status.job.progress if one.comm not in closed):
        if not owners.is_ours(odd.latest.values()):
            continue
        accused = [odd.latest[number] for number in odd.accused]
        ranks = tuple(sorted(rank for one in accused if (rank := owners.of_progress(one)) is not None))
        told = listed([_told(odd, one) for one in accused])
        rest = next((one for number, one in sorted(odd.latest.items()) if number not in odd.accused), None)
        others = f", {count(len(odd.latest) - len(accused), 'other')} {_told(odd, rest, False)}" if rest else ""
        yield Finding(
            "collective_size_mismatch" if odd.what == "size" else "collective_mismatch", "critical",
            0.6 if odd.counted.tied and odd.what != "behind" else 0.8,
            f"ranks are not at the same collective: {told}{others}",
            ranks=ranks, nodes=tuple(sorted({one.host for one in accused if one.host})),
            evidence=tuple(_progress_line(odd, one) for one in (*accused[:3], *([rest] if rest else []))),
            advice=CODE,
        )  # fmt: skip


def _told(odd: launched.Odd, one: CommProgress, named: bool = True) -> str:
    size = f" of {one.elements} {one.dtype}" if odd.what == "size" else ""
    label = f"rank {one.rank if one.global_rank is None else one.global_rank} " if named else ""
    return f"{label}at {one.op} #{odd.numbers[one.rank]}{size}"


def _progress_line(odd: launched.Odd, one: CommProgress) -> Evidence:
    return Evidence(f"{one.source}:{one.line}", one.at, f"communicator {one.comm}: {_told(odd, one)}")


def _counts(one: ras.Behind) -> str:
    by_count: dict[int, list[int]] = {}
    for number, value in sorted(one.counts.items()):
        by_count.setdefault(value, []).append(number)
    return "; ".join(f"{ranks_text(members)}: {one.op} {value}" for value, members in sorted(by_count.items()))


def ras_lost(job_status: JobStatus) -> Iterator[Finding]:
    """rank_missing by RAS's events: a process that was given up, or stopped responding and was not heard of again.

    Needs that the job stands still; a process that belongs to no rank of the job is another job's.
    """
    job = job_status.job
    found = lost(of_the_wait(job))
    owners = job.once(Owners)
    for dead in (True, False):
        peers = [one for one in found if one.dead is dead and owners.is_ours([one.member])]
        if not peers:
            continue
        ranks = owners.of_members(one.member for one in peers)
        named = who(ranks, "a process")
        yield Finding(
            "rank_missing", "critical", 0.8 if dead else 0.7,
            f"NCCL has given {named} up: it did not respond for a minute" if dead
            else f"{named} no longer answers NCCL's keepalives",
            ranks=ranks, nodes=homes(job, ranks),
            evidence=tuple(Evidence("NCCL RAS, monitor", one.event.at, words(one.event)) for one in peers[:4]),
            advice="The process ended, is stopped, or its node is cut off: look at it first.",
        )  # fmt: skip
