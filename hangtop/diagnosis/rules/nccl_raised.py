"""Exceptions out of NCCL, where nothing else says why."""

from __future__ import annotations

from collections.abc import Sequence

from hangtop.diagnosis.devices import event_line
from hangtop.diagnosis.failures import Failure, text_of
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.words import who


def raised_in_nccl(ended: Sequence[tuple[Failure, ...]]) -> list[Failure]:
    """Errors that ranks raised out of NCCL, of all words about ranks that ended."""
    return [own[0] for own in ended if text_of(own[0].event, "signature") == "nccl" and not own[0].consequence]


def failed_in_nccl(job: Job, failed: Sequence[Failure]) -> Finding:
    """rank_crashed: all that is known is that a call into NCCL failed; its own warning is not in the logs."""
    ranks = tuple(sorted({failure.rank for failure in failed if failure.rank is not None}))
    nodes = tuple(sorted({rank.node for rank in job.ranks if rank.rank in ranks and rank.node}))
    return Finding(
        "rank_crashed", "critical", 0.5, f"{who(ranks)} failed in NCCL: {failed[0].what}",
        ranks=ranks, nodes=nodes, evidence=tuple(event_line(failure.event) for failure in failed[:3]),
        advice="NCCL says why in a warning that is not here: run with NCCL_DEBUG=WARN, look at the logs of all ranks.",
    )  # fmt: skip
