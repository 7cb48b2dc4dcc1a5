"""Jobs that were never started: a batch system, a launcher, a container runtime refused, or a cluster has no room."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import text_of
from hangtop.diagnosis.evidence.events import hosts_in, lines, ranks_in, said
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.verdict.aftermath import finished

WHO = {
    "slurm": "Slurm",
    "mpi": "MPI's launcher",
    "hydra": "MPI's launcher",
    "ssh": "ssh",
    "batch": "the batch system",
    "flux": "Flux",
    "shell": "the shell",
    "docker": "the container runtime",
    "pyxis": "pyxis (enroot)",
    "enroot": "enroot",
    "apptainer": "Apptainer",
    "kubernetes": "Kubernetes",
}
ADVICE = {
    "slurm": "Look at what the job asks for (nodes, tasks, CPUs, GPUs a node) and at what the partition gives.",
    "mpi": "Look at the launcher's own text: slots and hosts, the program's path on every node, its support for PMI.",
    "hydra": "Look at the program's path on every node, and at what its settings name.",
    "ssh": "The launcher needs a login without a password on that node: look at keys and known_hosts.",
    "batch": "Ask for what the queue allows: its limits of time, of nodes and of memory.",
    "flux": "Look at the program's path on that node.",
    "shell": "Look at the environment of the job: its modules, its virtual environment, the paths in its script.",
    "kubernetes": "Look at the pod's events, at its image, its volumes and the devices of that node.",
}
CONTAINER = "Look at the image, at what is mounted into it, and at the driver and container toolkit of that node."


def refused(job: Job) -> Iterator[Finding]:
    """launch_failed: the ranks were not started, by the words of who was to start them.

    Needs a launcher's, a batch system's or a container runtime's words, of a job that is over. A run that came to its
    end, or that was started after all, is none.
    """
    everything = tuple(event for event in said(job, "launcher.refused") if not _came_about(job, event))
    events = tuple(event for event in everything if event.data.get("where") is not True)
    if not events or job.live or finished(job) or _ran(job, events):
        return
    told = [event for event in events if event.data.get("detail") is True]
    told = told or [event for event in events if event.data.get("vague") is not True] or list(events)
    first = told[0]
    launcher = text_of(events[0], "launcher")
    ranks = ranks_in(events)
    nodes = hosts_in(job, everything) or hosts_in(job, said(job, "launcher.exit"))[:8]
    yield Finding(
        "launch_failed", "critical", 0.85,
        f"the job was not started: {WHO.get(launcher, launcher)} says: {text_of(first, 'why')[:200]}",
        ranks=ranks, nodes=nodes, evidence=lines(events), advice=ADVICE.get(launcher, CONTAINER),
    )  # fmt: skip


def _came_about(job: Job, event: LogEvent) -> bool:
    """Whether a container of the same pod was started later: what it had waited for was there then."""
    return event.data.get("of_pod") is True and any(
        started.data.get("started") is True
        and started.data.get("pod") == event.data.get("pod")
        and started.source == event.source
        and started.line > event.line
        for started in said(job, "launcher.placed")
    )


def no_room(job: Job) -> Iterator[Finding]:
    """A finding ``waiting``: no node has room for the job's pods, tasks or actors, and none was found since.

    Needs a scheduler's words, the last of its kind.
    """
    events, placed = said(job, "launcher.pending"), said(job, "launcher.placed")
    if job.live or not events or any(event.line > events[-1].line for event in placed) or _ran(job, events):
        return
    drained = tuple(sorted({event.host for event in events if event.data.get("drained") is True}))
    yield Finding(
        "job_queued", "warning", 0.6, f"the job waits for a place: {text_of(events[-1], 'why')[:200]}",
        nodes=drained, evidence=lines(events),
        advice="Look at what it asks for, and at what the cluster's nodes have left.",
    )  # fmt: skip


def _ran(job: Job, events: tuple[LogEvent, ...]) -> bool:
    """Whether ranks spoke after it in the same file: whatever was refused, they were started."""
    last: dict[str, int] = {}
    for event in events:
        last[event.source] = max(event.line, last.get(event.source, 0))
    return any(
        event.kind.startswith(("torch.", "nccl.", "python.", "jax.", "engine."))
        and event.data.get("launcher") is not True
        and event.line > last.get(event.source, event.line)
        for event in job.events
    )
