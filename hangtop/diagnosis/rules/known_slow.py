"""A slow rank stays one until looks refute it: within each long step there is a wait in which nobody is seen late."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from hangtop.diagnosis.finding import Finding, KnownSlow
from hangtop.diagnosis.phrasing import duration
from hangtop.diagnosis.rules.network import loses_no_more
from hangtop.diagnosis.rules.slow import judged, no_longer_data_bound, no_longer_late
from hangtop.diagnosis.rules.slow_gpu import gpu_in_doubt, no_longer_behind
from hangtop.diagnosis.rules.slow_paths import no_longer_queued
from hangtop.diagnosis.tables.kinds import word_of
from hangtop.diagnosis.tables.thresholds import SENT_ANEW_S, STOOD_STILL_S
from hangtop.diagnosis.waits.job_status import LOSSY, JobStatus

STACKS, GPUS, SOCKETS, SEGMENTS = "py-spy", "nvidia-smi", "sock_diag", "/proc/net/snmp"
"""Witnesses that are asked again and again, by what their evidence begins with: what they said once may not hold."""
KINDS = frozenset({"straggler_rank", "data_bound", "slow_link", LOSSY})


def known_slow(job_status: JobStatus, found: Sequence[Finding]) -> tuple[KnownSlow, ...]:
    """What is known to be slow after this picture: what was ``found`` in it, and what was known and is not refuted.

    A proven hang or crash ends it: whatever the job does afterwards is to be seen anew. After the fact there is none.
    """
    job = job_status.job
    if not job.live or any(f.severity == "critical" and word_of(f.kind) in ("hung", "crashed") for f in found):
        return ()
    anew = tuple(KnownSlow(f, job.now) for f in found if f.kind in KINDS and _witness(f))
    kinds = {known.finding.kind for known in anew}
    return (*anew, *(old for old in job.slow if old.finding.kind not in kinds and not _refuted(job_status, old)))


def still_slow(job_status: JobStatus, slow: Iterable[KnownSlow]) -> Iterator[Finding]:
    """straggler_rank, data_bound, slow_link: as looks told it a while ago; none since has refuted it.

    Not while one of its nodes does not answer: then nobody knows whether it holds anything back.
    tcp_retransmits: while the job stands still, and so sends too little for a share to mean something.
    """
    job = job_status.job
    still = job.stood_still or 0.0
    silent = {name for name, node in job.nodes.items() if node.link in ("stale", "lost")}
    for finding, at in slow:
        age = job.now - at
        if age > 0.0 and silent.isdisjoint(finding.nodes) and (finding.kind != LOSSY or still >= STOOD_STILL_S):
            yield replace(finding, summary=f"{finding.summary} (so {duration(age)} ago, and not refuted since)")


def slowness_judged(job_status: JobStatus) -> bool:
    """Whether the ranks and their GPUs were looked at often enough to tell a slow one, and none is in doubt."""
    return judged(job_status) and not gpu_in_doubt(job_status)


def _witness(finding: Finding) -> str:
    """By whom it was seen to be slow; empty for others than these four."""
    sources = [line.source for line in finding.evidence]
    return next(
        (word for word in (STACKS, GPUS, SOCKETS, SEGMENTS) if any(source.startswith(word) for source in sources)), ""
    )


def _refuted(job_status: JobStatus, known: KnownSlow) -> bool:
    finding = known.finding
    if finding.kind == LOSSY:
        return loses_no_more(job_status.job, finding.nodes) or job_status.job.now - known.at > SENT_ANEW_S
    living = {rank.rank: rank.process.started for rank in job_status.job.ranks if rank.gone_at is None}
    if any(living.get(rank, known.at) >= known.at for rank in finding.ranks):
        return True  # it has ended, or is another process by now
    if finding.kind == "data_bound":
        return no_longer_data_bound(job_status)
    if finding.kind == "slow_link":
        return no_longer_queued(job_status, finding.nodes, known.at)
    if _witness(finding) == GPUS:
        return no_longer_behind(job_status, finding.ranks)
    return no_longer_late(job_status, finding.ranks)
