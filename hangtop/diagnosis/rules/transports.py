"""What libraries other than NCCL say of the network: verbs, UCX, libfabric, PSM2, Open MPI's own transports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import who
from hangtop.diagnosis.rules.nccl_log import failing_warnings
from hangtop.diagnosis.witnesses.event_fields import text_of
from hangtop.diagnosis.witnesses.messages import hosts_in, lines, ranks_in, said

NAMES = {
    "ucx": "UCX", "libfabric": "libfabric", "psm": "PSM2", "verbs": "the InfiniBand driver", "mpi": "Open MPI",
    "nvshmem": "NVSHMEM",
}  # fmt: skip
MEANINGS = {
    "retry_exceeded": ("ib_retry_exceeded", "got no answer from a peer",
        "A port, cable, switch or host on the way is dead or lossy: look at the counters of both ports."),
    "memory": ("memlock_limit", "could not register memory",
        "Raise the memlock limit to unlimited (limits.conf, LimitMEMLOCK of the service, --ulimit memlock=-1)."),
    "device": ("nccl_init_failed", "could not open its device",
        "Is the adapter there and its driver loaded (ibstat, lspci), and are its contexts free?"),
    "completion": ("nccl_remote_error", "was told that an operation failed",
        "The adapter or its driver refused it, or the peer did: look at the kernel's log and the firmware of both."),
    "queue_pair": ("nccl_init_failed", "could not set up a queue pair",
        "GID index, RoCE routing between the nodes, or a port that is not active."),
    "connect": ("nccl_connect_failed", "could not connect to a peer",
        "Wrong interface, a firewall between the nodes, or the peer was not up: probe the path to it."),
    "other": ("nccl_init_failed", "reported an error", "Its words say which call failed."),
}  # fmt: skip
"""Signature: kind, what happened, advice. Those of ``docs/log-events.md``."""


def transport_failed(job: Job) -> Iterator[Finding]:
    """ib_retry_exceeded, memlock_limit, nccl_connect_failed, nccl_init_failed, as a transport's own library tells.

    Needs its error lines. What NCCL warns of says more; a job that is known to move has got over them.
    """
    events = said(job, "fabric.error")
    if not events or job.live or failing_warnings(job) or said(job, "job.finished"):
        return
    signature = next(name for name in MEANINGS if any(text_of(event, "signature") == name for event in events))
    kind, what, advice = MEANINGS[signature]
    events = tuple(event for event in events if text_of(event, "signature") == signature)
    ranks = ranks_in(events)
    if signature == "other" and (_set_up_later(job, events) or set(ranks) & set(ranks_in(said(job, "process.signal")))):
        return  # it did without; or the rank ended itself behind it, and its own words say how
    library = text_of(events[0], "library")
    yield Finding(
        kind, "critical", 0.6,
        f"{NAMES.get(library, library)} {what}{f' ({who(ranks)})' if ranks else ''}: {text_of(events[0], 'error')}",
        ranks=ranks, nodes=hosts_in(job, events), evidence=lines(events), advice=advice,
    )  # fmt: skip


def _set_up_later(job: Job, events: Sequence[LogEvent]) -> bool:
    """Whether NCCL came to an end of its own start behind each of these lines."""
    ready = [event for event in said(job, "nccl.init") if text_of(event, "phase") == "complete"]
    last = {event.source: event.line for event in ready}
    return all(last.get(event.source, 0) > event.line for event in events)
