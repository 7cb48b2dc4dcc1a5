"""What the job itself can tell: each source of evidence, why one is missing and what would change that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from hangtop.diagnosis.job import Job, Rank
from hangtop.diagnosis.phrasing import count

State = Literal["told", "there", "missing"]
LAUNCH = "hangtop repair launch"


@dataclass(frozen=True, slots=True)
class EvidenceSource:
    """One source."""

    name: str
    state: State
    """``told``: it has said something; ``there``: it can be asked; ``missing``."""
    text: str
    """What it said or can be asked for; why it is missing."""
    how: str = ""
    """The command that asks it, or what the next run needs."""


def evidence_sources(job: Job, ras_fault: str) -> tuple[EvidenceSource, ...]:
    """All sources, the cheapest first. ``ras_fault``: why RAS could not be asked the last time."""
    ranks = [rank for rank in job.ranks if rank.gone_at is None]
    if not ranks:
        return ()
    return _recorder(job, ranks), _ras(job, ranks, ras_fault), _native(job)


def _with(ranks: Sequence[Rank], has: Callable[[Rank], bool]) -> str:
    """``all 8 ranks``, ``3 of 8 ranks``; empty for none."""
    number = sum(map(has, ranks))
    if number == len(ranks):
        return f"all {count(number, 'rank')}" if number > 1 else "the rank"
    return f"{number} of {count(len(ranks), 'rank')}" if number else ""


def _recorder(job: Job, ranks: Sequence[Rank]) -> EvidenceSource:
    armed = _with(ranks, lambda rank: bool(rank.process.env.get("TORCH_NCCL_DEBUG_INFO_PIPE_FILE")))
    if job.recorders:
        return EvidenceSource(
            "flight recorder", "told", f"dumps of {count(len(job.recorders), 'rank')}", "r on the screen"
        )
    if armed:
        return EvidenceSource("flight recorder", "there", f"{armed} can be asked by a pipe", "r on the screen")
    return EvidenceSource(
        "flight recorder", "missing", "no dump lies on the nodes, and TORCH_NCCL_DEBUG_INFO_PIPE_FILE is not set",
        LAUNCH,
    )  # fmt: skip


def _ras(job: Job, ranks: Sequence[Rank], fault: str) -> EvidenceSource:
    name = "NCCL's RAS"
    if job.ras:
        return EvidenceSource(name, "told", f"{count(len(job.ras), 'answer')}")
    if fault:
        return EvidenceSource(name, "missing", fault)
    versions = sorted({rank.process.versions.get("nccl", "") for rank in ranks} - {""})
    if not versions:
        return EvidenceSource(name, "missing", "no NCCL is loaded whose version is known")
    if any(rank.process.env.get("NCCL_RAS_ENABLE", "").strip() == "0" for rank in ranks):
        return EvidenceSource(name, "missing", "NCCL_RAS_ENABLE=0 is set", "leave it out of the next run")
    if job.motion.moving:
        return EvidenceSource(name, "missing", "RAS is not asked while the job moves: its counts mean nothing then")
    text = f"NCCL {', '.join(versions)} was not asked: RAS came with 2.24, and 2.29 is the first that bears questions"
    return EvidenceSource(name, "missing", text)


def _native(job: Job) -> EvidenceSource:
    name = "native stacks"
    told = {dump.rank_pid for dump in job.stacks if dump.method == "native" and dump.threads}
    if told:
        return EvidenceSource(name, "told", f"of {count(len(told), 'rank')}", "hangtop stacks --native")
    refused = next((dump for dump in job.stacks if dump.error.startswith("denied")), None)
    if refused is not None:
        return EvidenceSource(name, "missing", refused.error, refused.way_out)
    return EvidenceSource(name, "there", "read where Python's frames leave a question open", "hangtop stacks --native")
