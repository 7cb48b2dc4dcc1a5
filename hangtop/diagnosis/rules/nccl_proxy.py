"""NCCL's proxy thread lost an operation: the rank that asks for the next one spins for ever."""

from __future__ import annotations

from collections.abc import Iterator

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.phrasing import ranks_on
from hangtop.diagnosis.roster import homes
from hangtop.diagnosis.stacks.states import Meaning
from hangtop.diagnosis.waits.evidence import evidence_of
from hangtop.diagnosis.waits.job_status import JobStatus


def operation_lost(job_status: JobStatus) -> Iterator[Finding]:
    """nccl_proxy_lost: every look with native frames met the rank in ``ncclLocalOpAppend`` of NCCL.

    A full queue of the proxy thread empties within milliseconds, so that looks do not meet a rank there. NCCL before
    2.29.3 may lose an operation on aarch64 by a weak compare-and-exchange (NVIDIA/nccl issue 2353).
    """
    for status in job_status.read:
        doing = status.activity
        if doing is None or doing.meaning is not Meaning.NCCL_PROXY or doing.moving:
            continue
        yield Finding(
            "nccl_proxy_lost", "critical", 0.8,
            f"{ranks_on([status.rank], [status.node])} spins in ncclLocalOpAppend: NCCL's proxy thread has lost an "
            "operation",
            ranks=(status.rank,), nodes=homes(job_status.job, (status.rank,)),
            evidence=evidence_of(status),
            advice="Move to NCCL 2.29.3 or newer: older ones lose operations on aarch64 (NVIDIA/nccl issue 2353).",
        )  # fmt: skip
