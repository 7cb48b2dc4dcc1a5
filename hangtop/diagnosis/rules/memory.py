"""Memory that ran out: on a GPU, in /dev/shm, and of the worker processes of a data loader."""

from __future__ import annotations

from collections.abc import Iterator

from hangtop.diagnosis.evidence.event_fields import number_of, text_of, when
from hangtop.diagnosis.evidence.events import hosts_in, lines, ranks_in, said, warned
from hangtop.diagnosis.evidence.gpus import gpus_in
from hangtop.diagnosis.failures.first import reported_rank
from hangtop.diagnosis.failures.unheard import kernel_at
from hangtop.diagnosis.finding import Evidence, Finding, Observer
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import size, who
from hangtop.diagnosis.roster import homes

FIRST_WITHIN_S = 2.0
"""Ranks that ran out of memory within two seconds of the first did so by themselves, not after it."""
TOLD_TO_END = frozenset({"Terminated", "Interrupt", "Hangup"})
"""Signals, in strsignal's words, by which a data loader's worker is ended with its rank."""


def gpu_out_of_memory(job: Job) -> Iterator[Finding]:
    """gpu_out_of_memory: CUDA out of memory on a rank."""
    events = [
        *said(job, "torch.out_of_memory"),
        *said(job, "python.exception", "out_of_memory"),
        *(event for event in warned(job, "cuda") if "out of memory" in text_of(event, "error")),
    ]
    if not events:
        return
    earliest = min((event.at for event in events if event.at is not None), default=None)
    if earliest is not None:
        events = [event for event in events if event.at is not None and event.at <= earliest + FIRST_WITHIN_S]
    ranks, nodes = reported_rank(job, events)
    figures = next((event for event in events if event.kind == "torch.out_of_memory"), events[0])
    told = ((" asking for {}", "tried"), (" on a GPU of {}", "capacity"), (" with {} free", "free"))
    sizes = "".join(words.format(size(number)) for words, name in told if (number := number_of(figures, name)))
    own = {f"{rank.node}:{gpu}" for rank in job.ranks if rank.rank in ranks for gpu in rank.gpus}
    yield Finding(
        "gpu_out_of_memory", "critical", 0.92, f"{who(ranks)} ran out of GPU memory{sizes}",
        ranks=ranks, nodes=nodes, gpus=tuple(sorted(own)) or gpus_in(job, events), evidence=lines(events),
        advice="Lower the batch, shard or checkpoint activations; expandable_segments:True helps where memory is "
        "fragmented. Where the other GPUs have room, this one carries more than its share, or something else is on it.",
    )  # fmt: skip


def shm_too_small(job: Job) -> Iterator[Finding]:
    """shm_too_small: NCCL or a data loader's worker could not get shared memory; with the node's own figure."""
    workers = [event for event in said(job, "torch.worker_died") if text_of(event, "reason") == "bus"]
    events = [*warned(job, "shared_memory"), *workers, *said(job, "host.shared_memory")]
    if not events:
        return
    hosts = hosts_in(job, events)
    figures = [
        f"/dev/shm on {name} has {size(node.load.shm_total)}, {size(node.load.shm_used or 0)} used"
        for name, node in sorted(job.nodes.items())
        if (name in hosts or not hosts) and node.load and node.load.shm_total
    ]
    yield Finding(
        "shm_too_small", "critical", 0.92,
        f"{who(ranks_in(events))} could not get shared memory{f': {figures[0]}' if figures else ''}",
        ranks=ranks_in(events), nodes=hosts,
        evidence=(*lines(events), *(Evidence(Observer.PROCESS, "host", None, figure) for figure in figures[:4])),
        advice="Start the container with --shm-size=16g or --ipc=host; NCCL alone wants 1 GB.",
    )  # fmt: skip


def worker_died(job: Job) -> Iterator[Finding]:
    """rank_crashed through a data loader's worker that was killed or crashed; host_out_of_memory by the kernel's word.

    One that ended by SIGBUS is shm_too_small, and one that was told to end (SIGTERM) was ended with its rank.
    """
    events = [
        event for event in said(job, "torch.worker_died")
        if text_of(event, "reason") not in ("bus", "timeout") and text_of(event, "signal") not in TOLD_TO_END
    ]  # fmt: skip
    if not events:
        return
    first, reason = events[0], text_of(events[0], "reason") or "ended"
    ranks, worker = ranks_in([first]), number_of(first, "worker_pid")
    kills = [event for event in said(job, "kernel.oom") if worker is not None and number_of(event, "pid") == worker]
    nodes = homes(job, ranks)
    beside = kernel_at(job, nodes[0], when(first), segfaults=False) if reason == "killed" and len(nodes) == 1 else None
    kills = kills or ([beside] if beside else [])
    yield Finding(
        "host_out_of_memory" if kills else "rank_crashed", "critical", 0.9 if kills else 0.85,
        f"the kernel killed a data loader worker of {who(ranks)}: out of memory" if kills
        else f"a data loader worker of {who(ranks)} was lost: {reason}",
        ranks=ranks, nodes=hosts_in(job, [first, *kills]), evidence=lines([*kills, *events]),
        advice="Give the job more memory or use less: fewer workers, less that is cached or prefetched." if kills
        else "Killed workers are mostly out of memory: look at the kernel log; num_workers=0 shows the real error.",
    )  # fmt: skip
