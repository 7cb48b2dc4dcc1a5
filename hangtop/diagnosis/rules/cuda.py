"""Errors of CUDA that speak of broken hardware, whoever prints them: torch, its watchdog, NCCL or an exception."""

from __future__ import annotations

import re
from collections.abc import Iterator

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import who
from hangtop.diagnosis.witnesses.event_fields import text_of
from hangtop.diagnosis.witnesses.failures import cuda_error, failures
from hangtop.diagnosis.witnesses.messages import hosts_in, lines, ranks_in, said
from hangtop.diagnosis.witnesses.named_gpus import gpus_in

HARDWARE: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("nvlink_errors", re.compile(r"nvlink", re.IGNORECASE)),
    ("gpu_ecc", re.compile(r"uncorrectable|\becc\b", re.IGNORECASE)),
    ("gpu_lost", re.compile(r"gpu is lost|fallen off|unrecoverable|device\b.*\blost|gpu hang", re.IGNORECASE)),
)
"""Words of CUDA's errors that no program can cause (cudaErrorECCUncorrectable, cudaErrorNvlinkUncorrectable …)."""
KINDS = (
    "torch.cuda_error",
    "torch.watchdog_error",
    "nccl.warn",
    "python.exception",
    "process.signal",
    "nccl_tests.failed",
)


def hardware_kind(error: str) -> str:
    """The kind of finding that an error of CUDA proves by itself; empty where the program may be to blame."""
    if "cuda" not in error.lower():
        return ""
    return next((kind for kind, pattern in HARDWARE if pattern.search(error)), "")


def hardware(job: Job) -> Iterator[Finding]:
    """gpu_ecc, gpu_lost and nvlink_errors by CUDA's own errors.

    Needs torch's, NCCL's or an exception's words; which GPU it was, the kernel log and nvidia-smi tell.
    """
    found: dict[str, list[LogEvent]] = {}
    for event in (event for kind in KINDS for event in said(job, kind)):
        kind = hardware_kind(told(event))
        if kind:
            found.setdefault(kind, []).append(event)
    for kind, events in sorted(found.items()):
        ranks, nodes = ranks_in(events), hosts_in(job, events)
        if not ranks:
            ranks, node = _aborted(job)
            nodes = node or nodes
        yield Finding(
            kind, "critical", 0.9, f"CUDA told {who(ranks)}: {told(events[0]).removeprefix('CUDA error: ')}",
            ranks=ranks, nodes=nodes, gpus=gpus_in(job, events), evidence=lines(events),
            advice="Hardware: drain the node, look at the kernel log for the GPU's Xid, reset or replace it.",
        )  # fmt: skip


def _aborted(job: Job) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The one rank that a launcher says aborted, and its node: ROCm's and CUDA's last words bear no label."""
    exits = (failure for failure in failures(job) if failure.event.kind == "launcher.exit")
    ended = {(failure.rank, failure.host) for failure in exits if failure.signal == "ABRT" and failure.rank is not None}
    if len(ended) != 1:
        return (), ()
    ((rank, host),) = ended
    return (rank,), (host,) if host else ()


def told(event: LogEvent) -> str:
    """What an event says of an error of CUDA, with that word in front."""
    if event.kind == "python.exception":
        return text_of(event, "message") if text_of(event, "signature") == "cuda" else ""
    if event.kind == "nccl_tests.failed":
        return f"CUDA error: {text_of(event, 'error')}" if text_of(event, "what") == "CUDA" else ""
    if event.kind == "process.signal":
        thrown = text_of(event, "what").partition("CUDA error: ")[2]
        return f"CUDA error: {thrown.splitlines()[0]}" if thrown else ""
    error = cuda_error(event)
    return f"CUDA error: {error}" if error else ""
