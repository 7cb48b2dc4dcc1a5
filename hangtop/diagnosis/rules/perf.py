"""What a run of nccl-tests shows: a test that gave up, wrong elements, a bandwidth that falls as messages grow."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import listed
from hangtop.diagnosis.rules.cuda import hardware_kind
from hangtop.diagnosis.rules.lost_peers import lost_connections
from hangtop.diagnosis.rules.nccl_log import failing_warnings
from hangtop.diagnosis.witnesses.event_fields import number_of, text_of
from hangtop.diagnosis.witnesses.messages import hosts_in, lines, ranks_in, said, warned
from hangtop.diagnosis.witnesses.named_gpus import gpus_in

LARGE = 1 << 20
"""Ours, bytes: below it latency rules, and figures jump."""
FALLEN = 0.6
"""Ours: share of the best bandwidth. A change of algorithm or protocol between two sizes costs less."""
LAST = 3
"""Sizes at the end whose median counts: one that was disturbed proves nothing."""


def gave_up(job: Job) -> Iterator[Finding]:
    """rank_crashed, or the kind that the error proves: a test of nccl-tests that stopped on an error.

    Needs its line ("Test NCCL failure"). Where NCCL itself says why, or that another one ended first, that is told
    instead.
    """
    events = [event for event in said(job, "nccl_tests.failed") if event.data.get("consequence") is not True]
    own = any("cuda error" in text_of(event, "error") for event in events)
    lost = () if own else lost_connections(job)  # a GPU's error is no consequence of a peer's end
    why = (*failing_warnings(job), *lost, *warned(job, "duplicate_gpu", "invalid_device", "cuda"))
    if not events or (why and all(text_of(event, "what") == "NCCL" for event in events)):
        return
    events.sort(key=lambda event: text_of(event, "what") != "CUDA")
    error = text_of(events[0], "error")
    yield Finding(
        _kind(events[0]), "critical", 0.75,
        f"nccl-tests stopped{_on(hosts_in(job, events))}: {text_of(events[0], 'what')} said {error}",
        ranks=ranks_in(events), nodes=hosts_in(job, events), gpus=gpus_in(job, events), evidence=lines(events),
        advice="Look at the host that is named first. NCCL_DEBUG=WARN makes NCCL say why.",
    )  # fmt: skip


def _kind(event: LogEvent) -> str:
    error = text_of(event, "error")
    if text_of(event, "what") == "CUDA":
        if "out of memory" in error:
            return "gpu_out_of_memory"
        if "invalid device ordinal" in error or "no CUDA-capable device" in error:
            return "invalid_device"
        return hardware_kind(f"CUDA error: {error}") or "rank_crashed"
    return "watchdog_timeout" if text_of(event, "what") == "time" else "rank_crashed"


def _on(hosts: tuple[str, ...]) -> str:
    return f" on {listed(hosts)}" if hosts else ""


def wrong(job: Job) -> Iterator[Finding]:
    """silent_corruption: elements that came out wrong.

    Needs the column ``#wrong``, or the line of values out of bounds.
    """
    events = [event for event in said(job, "nccl_tests.table") if (number_of(event, "wrong") or 0) > 0]
    if events:
        count = sum(number_of(event, "wrong") or 0 for event in events)
        yield Finding(
            "silent_corruption", "critical", 0.9, f"nccl-tests got {count} wrong elements",
            nodes=hosts_in(job, events), evidence=lines(events),
            advice="Data is damaged on its way: test the nodes by twos to find the GPU or link; IOMMU and ACS settings "
            "do this, too.",
        )  # fmt: skip
