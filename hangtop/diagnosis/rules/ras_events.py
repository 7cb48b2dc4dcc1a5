"""Processes that NCCL's RAS lost while the job stood still, by what it says as it notices it."""

from __future__ import annotations

from collections.abc import Iterator

from hangtop.diagnosis.finding import Evidence, Finding
from hangtop.diagnosis.groups.owners import Owners
from hangtop.diagnosis.groups.ras_events import lost, of_the_wait, words
from hangtop.diagnosis.phrasing import who
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.waits.job_status import JobStatus


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
