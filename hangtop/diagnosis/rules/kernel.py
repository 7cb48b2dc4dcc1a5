"""Kernel lines that explain ranks that do not move: storage that does not answer, tasks and CPUs that are stuck."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.devices import ranks_on_node
from hangtop.diagnosis.evidence.event_fields import text_of
from hangtop.diagnosis.evidence.events import event_line, events_on, pid_of
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import duration, listed


def storage_stalled(job: Job) -> Iterator[Finding]:
    """storage_stalled: a file server does not answer, by the kernel's word, and is not back.

    Needs the kernel log, or the file system's own.
    """
    for name in sorted(job.nodes):
        last: dict[tuple[str, str], LogEvent] = {}
        for event in events_on(job, job.nodes[name], "kernel.storage"):
            last[text_of(event, "system"), text_of(event, "server")] = event
        away = {key: event for key, event in sorted(last.items()) if event.data.get("ok") is not True}
        if away:
            servers = listed([f"{system} server {server}".rstrip() for system, server in away])
            yield Finding(
                "storage_stalled", "critical", 0.85, f"{name} gets no answer from {servers}",
                ranks=ranks_on_node(job, name), nodes=(name,), evidence=tuple(map(event_line, list(away.values())[:4])),
                advice="Ranks that read or write there hang in the kernel until the server is back.",
            )  # fmt: skip


def kernel_trouble(job: Job) -> Iterator[Finding]:
    """kernel_trouble: tasks blocked for minutes, CPUs that are locked up.

    Needs the kernel log. Names the ranks whose own processes the lines name, else those of the node.
    """
    for name in sorted(job.nodes):
        node = job.nodes[name]
        events = [event for kind in ("kernel.hung_task", "kernel.lockup") for event in events_on(job, node, kind)]
        if not events:
            continue
        pids = {pid_of(event) for event in events}
        own = tuple(
            sorted(
                rank.rank
                for rank in job.ranks_of(name)
                if pids & {rank.process.pid, *(helper.pid for helper in rank.helpers)}
            )
        )
        first = events[0]
        seconds = first.data.get("seconds")
        long = f" for {duration(float(seconds))}" if isinstance(seconds, (int, float)) else ""
        task = text_of(first, "process") or "a task"
        what = "a CPU is locked up" if first.kind == "kernel.lockup" else f"{task} is blocked"
        yield Finding(
            "kernel_trouble", "critical" if own else "warning", 0.85 if own else 0.6,
            f"{what} in the kernel of {name}{long}",
            ranks=own, nodes=(name,), evidence=tuple(map(event_line, events[:4])),
            advice="Storage or a driver does not answer; drain the node if it does not come back.",
        )  # fmt: skip
