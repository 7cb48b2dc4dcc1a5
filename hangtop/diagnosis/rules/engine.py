"""Rules as table rows: events of one kind that are a finding by themselves.

A row holds the events, the finding and an example. The example is the row's test:
``tests/unit/diagnosis/test_event_rows.py`` makes the finding of it, then removes each of the row's conditions in turn
and expects no finding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import number_of, numbers_of, text_of
from hangtop.diagnosis.evidence.events import events_on, finished, hosts_in, lines, log_events, ranks_in
from hangtop.diagnosis.evidence.gpus import gpu_at, ranks_on_gpu
from hangtop.diagnosis.failures.record import failures
from hangtop.diagnosis.finding import Finding, Severity
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Node
from hangtop.diagnosis.phrasing import listed, on_nodes, ranks_text
from hangtop.diagnosis.roster import homes, ranks_on_node

Scope = Literal["job", "node", "gpu"]
"""One finding for all events of the job, for those of one node, or for those of one GPU of a node."""


class Line(NamedTuple):
    """Events of one kind whose ``fields`` each have one of the listed values."""

    kind: str
    fields: Mapping[str, tuple[object, ...]] = {}

    def matches(self, event: LogEvent) -> bool:
        """Whether an event of this kind has these values."""
        return all(event.data.get(name) in values for name, values in self.fields.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """A rule: events of one kind, or of several with the same meaning, are a finding."""

    event: Line
    also: tuple[Line, ...] = ()
    """Other events with the same meaning."""
    kind: str
    severity: Severity = "critical"
    weight: float
    summary: str
    """With ``{who}`` (ranks, else "a rank"), ``{on}`` (" on node4"), ``{node}`` and ``{gpu}``."""
    detail: str = ""
    """Names of fields of an event, the first non-empty one of which follows the summary: ``error message``."""
    advice: str
    example: Mapping[str, Any] = field(default_factory=dict)
    """Fields of an event that makes the finding, in addition to those that :attr:`event` demands."""
    other: Mapping[str, Any] | None = None
    """Fields of an event of the same kind that makes no finding; None if every event of the kind makes it."""
    scope: Scope = "job"
    where: Callable[[LogEvent], bool] | None = None
    """A further condition on an event."""
    unless: tuple[Line, ...] = ()
    """More specific events: any of them suppresses this row."""
    beside: tuple[Line, ...] = ()
    """Events of which at least one must also be present."""
    last_resort: bool = False
    """Only for a job that is over without having completed, if no rank failed by itself and NCCL gives no reason.

    A live job may have recovered."""
    accuses: bool = True
    """Whether the ranks that logged the event are the culprits."""
    ranks_in: str = ""
    """The field that lists the culprits, if other ranks logged the event; events without it do not count."""

    def __call__(self, job: Job) -> Iterator[Finding]:
        """Make the findings of a job."""
        if self.scope != "job":
            yield from self._of_nodes(job)
            return
        events = self._events(partial(log_events, job))
        if not events or _are_there(job, self.unless) or (self.beside and not _are_there(job, self.beside)):
            return
        if self.last_resort and (job.live or explained(job)):
            return
        ranks = self._culprits(job, events)
        nodes = (homes(job, ranks) if self.ranks_in else ()) or hosts_in(job, events)
        gpus = {f"{rank.node}:{gpu}" for rank in job.ranks if rank.rank in ranks for gpu in rank.gpus}
        yield self._finding(events, ranks, nodes, tuple(sorted(gpus)))

    def _events(self, of_kind: Callable[[str], Iterable[LogEvent]]) -> list[LogEvent]:
        wanted = (self.event, *self.also)
        return [
            event for kind in dict.fromkeys(line.kind for line in wanted) for event in of_kind(kind)
            if any(line.kind == kind and line.matches(event) for line in wanted)
            and (self.where is None or self.where(event)) and (not self.ranks_in or numbers_of(event, self.ranks_in))
        ]  # fmt: skip

    def _culprits(self, job: Job, events: Sequence[LogEvent]) -> tuple[int, ...]:
        """Ranks that the field lists; else those that logged the events, else the only failed rank in these logs."""
        if self.ranks_in:
            return tuple(sorted({rank for event in events for rank in numbers_of(event, self.ranks_in)}))
        sources = {event.source for event in events}
        failed = {
            failure.rank for failure in failures(job) if failure.rank is not None and failure.manner == "exit"
            and not failure.consequence and failure.event.source in sources
        }  # fmt: skip
        return ranks_in(events) or (tuple(failed) if len(failed) == 1 and not job.live else ())

    def _of_nodes(self, job: Job) -> Iterator[Finding]:
        """One finding for each node, or for each of its GPUs, by lines of its kernel and its services."""
        for name, node in sorted(job.nodes.items()):
            together: dict[str, list[LogEvent]] = defaultdict(list)
            for event in self._events(partial(events_on, job, node)):
                together[gpu_of(node, event) if self.scope == "gpu" else ""].append(event)
            for gpu, events in sorted(together.items()):
                if not gpu and len(together) > 1:
                    continue  # another line names the GPU
                index = int(gpu) if gpu.isdecimal() else None
                ranks = ranks_on_gpu(job, node, index) if self.scope == "gpu" else ranks_on_node(job, name)
                yield self._finding(events, ranks, (name,), (f"{name}:{gpu}",) if gpu else ())

    def _finding(self, events: Sequence[LogEvent], ranks: tuple[int, ...], nodes: tuple[str, ...],
                 gpus: tuple[str, ...]) -> Finding:  # fmt: skip
        indices = {number_of(event, "gpu") for event in events} - {None}
        unnamed = f"the rank of GPU {indices.pop()}" if len(indices) == 1 else "a rank"
        unnamed += f" {on_nodes(nodes)}" if nodes and "{on}" not in self.summary else ""
        text = self.summary.format(
            who=ranks_text(ranks) or unnamed, node=listed(nodes), on=f" {on_nodes(nodes)}" if nodes else "",
            gpu=f"GPU {gpus[0].partition(':')[2]}" if gpus else "a GPU",
        )  # fmt: skip
        return Finding(
            self.kind, self.severity, self.weight, ": ".join([text, *_details(events, self.detail)][:2]),
            ranks=ranks if self.accuses else (), nodes=nodes, gpus=gpus,
            evidence=lines(events), advice=self.advice,
        )  # fmt: skip


def _details(events: Iterable[LogEvent], names: str) -> Iterator[str]:
    """Non-empty values of these fields."""
    for event in events:
        for name in names.split():
            if (value := event.data.get(name)) not in (None, "", []):
                yield listed([str(item) for item in value]) if isinstance(value, list) else str(value)


def _are_there(job: Job, wanted: Iterable[Line]) -> bool:
    return any(line.matches(event) for line in wanted for event in log_events(job, line.kind))


def explained(job: Job) -> bool:
    """Whether a rank failed by itself, NCCL says why its call failed, or the run completed."""
    failed = any(not failure.consequence or failure.signature == "nccl" for failure in failures(job))
    return failed or finished(job) or bool(nccl_failures(job))


def nccl_failures(job: Job) -> tuple[LogEvent, ...]:
    """NCCL's warnings after which the call fails on the same rank, and connections retried too often."""
    return (*log_events(job, "nccl.warn", *FAILING), *filter(retried_too_often, log_events(job, "nccl.connect_retry")))


def retried_too_often(event: LogEvent) -> bool:
    """Whether a connection was retried so often that its peer is not merely late; True for events of other kinds."""
    return event.kind != "nccl.connect_retry" or (number_of(event, "tried") or 0) >= MANY_RETRIES


MANY_RETRIES = 8
"""Retries of one connection that a peer which merely starts late does not need: about four seconds."""


FAILING = (
    "connect_failed", "no_interface", "version_mismatch", "ib_memory", "open_files", "init_failed", "truncated",
    "ib_completion",
)  # fmt: skip
"""Signatures of the warnings after which NCCL's call fails."""


def gpu_of(node: Node, event: LogEvent) -> str:
    """Index of the GPU that a driver's line names, else its PCI address; empty if the line names none."""
    index, bus = number_of(event, "gpu"), text_of(event, "bus_id")
    if index is None and bus:
        index = gpu_at(node, bus)
    return bus if index is None else str(index)
