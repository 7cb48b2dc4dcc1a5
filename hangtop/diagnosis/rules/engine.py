"""Rules that are rows: events of one kind that are a finding by themselves.

A row says which events it is about, the finding that is made of them, and an example. The example is the row's test:
``tests/unit/diagnosis/test_event_rows.py`` makes the finding of it, and takes each of the row's conditions away in
turn, upon which there must be none.
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
"""What one finding is about: all events of the job together, those of one node, or those of one GPU of a node."""


class Line(NamedTuple):
    """Lines of logs that are events of one kind, some of whose fields have one of these values."""

    kind: str
    fields: Mapping[str, tuple[object, ...]] = {}

    def matches(self, event: LogEvent) -> bool:
        """Whether an event of this kind has those values."""
        return all(event.data.get(name) in values for name, values in self.fields.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """Events of one kind, or of several that say the same, that are a finding."""

    event: Line
    also: tuple[Line, ...] = ()
    """Events that say the same in other words."""
    kind: str
    severity: Severity = "critical"
    weight: float
    summary: str
    """With ``{who}`` (ranks, else "a rank"), ``{on}`` (" on node4"), ``{node}`` and ``{gpu}``."""
    detail: str = ""
    """Fields of an event, of which the first that is known is said after the summary: ``error message``."""
    advice: str
    example: Mapping[str, Any] = field(default_factory=dict)
    """Fields of an event of which the finding is made, beside those that :attr:`event` wants."""
    other: Mapping[str, Any] | None = None
    """Fields of an event of the same kind of which it is not; None where any event of the kind makes it."""
    scope: Scope = "job"
    where: Callable[[LogEvent], bool] | None = None
    """What an event must have besides."""
    unless: tuple[Line, ...] = ()
    """Events that say more: with one of them this row says nothing."""
    beside: tuple[Line, ...] = ()
    """Events of which one must be there, too."""
    last_resort: bool = False
    """Only of a job that is over and did not come to its end, where no rank failed by itself and NCCL gives no reason.

    A live job may have got over it."""
    accuses: bool = True
    """Whether the ranks that said it are the culprits."""
    ranks_in: str = ""
    """The field that holds the culprits, where that is not who said it; events in which it is empty do not count."""

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
        told = (self.event, *self.also)
        return [
            event for kind in dict.fromkeys(one.kind for one in told) for event in of_kind(kind)
            if any(one.kind == kind and one.matches(event) for one in told)
            and (self.where is None or self.where(event)) and (not self.ranks_in or numbers_of(event, self.ranks_in))
        ]  # fmt: skip

    def _culprits(self, job: Job, events: Sequence[LogEvent]) -> tuple[int, ...]:
        """The ranks that the field names; those that said it, else the only failed rank that the same logs tell of."""
        if self.ranks_in:
            return tuple(sorted({rank for event in events for rank in numbers_of(event, self.ranks_in)}))
        sources = {event.source for event in events}
        failed = {
            one.rank for one in failures(job)
            if one.manner == "exit" and one.rank is not None and not one.consequence and one.event.source in sources
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
                    continue  # the same was told of a GPU by name
                index = int(gpu) if gpu.isdecimal() else None
                ranks = ranks_on_gpu(job, node, index) if self.scope == "gpu" else ranks_on_node(job, name)
                yield self._finding(events, ranks, (name,), (f"{name}:{gpu}",) if gpu else ())

    def _finding(self, events: Sequence[LogEvent], ranks: tuple[int, ...], nodes: tuple[str, ...],
                 gpus: tuple[str, ...]) -> Finding:  # fmt: skip
        text = self.summary.format(
            who=ranks_text(ranks if self.ranks_in else ranks or ranks_in(events)) or "a rank",
            node=listed(nodes), on=f" {on_nodes(nodes)}" if nodes else "",
            gpu=f"GPU {gpus[0].partition(':')[2]}" if gpus else "a GPU",
        )  # fmt: skip
        return Finding(
            self.kind, self.severity, self.weight, ": ".join([text, *_details(events, self.detail)][:2]),
            ranks=ranks if self.accuses else (), nodes=nodes, gpus=gpus,
            evidence=lines(events), advice=self.advice,
        )  # fmt: skip


def _details(events: Iterable[LogEvent], names: str) -> Iterator[str]:
    """What is known of these fields."""
    for event in events:
        for name in names.split():
            if (value := event.data.get(name)) not in (None, "", []):
                yield listed([str(item) for item in value]) if isinstance(value, list) else str(value)


def _are_there(job: Job, told: Iterable[Line]) -> bool:
    return any(one.matches(event) for one in told for event in log_events(job, one.kind))


def explained(job: Job) -> bool:
    """A rank failed by itself, NCCL says why its call failed, or the run came to its end."""
    failed = any(not one.consequence or one.signature == "nccl" for one in failures(job))
    return failed or finished(job) or bool(nccl_failures(job))


def nccl_failures(job: Job) -> tuple[LogEvent, ...]:
    """Warnings of NCCL after which its call fails on the rank that gives them, and connections tried in vain."""
    return (*log_events(job, "nccl.warn", *FAILING), *filter(in_vain, log_events(job, "nccl.connect_retry")))


def in_vain(event: LogEvent) -> bool:
    """Whether a connection was tried so often that its peer is not only late."""
    return event.kind != "nccl.connect_retry" or (number_of(event, "tried") or 0) >= MANY_RETRIES


MANY_RETRIES = 8
"""Retries of one connection of which a peer that only starts late needs fewer: about four seconds."""


FAILING = (
    "connect_failed", "no_interface", "version_mismatch", "ib_memory", "open_files", "init_failed", "truncated",
)  # fmt: skip
"""Signatures of such warnings."""


def gpu_of(node: Node, event: LogEvent) -> str:
    """Index of the GPU that a line of a driver names where it is known, else its address; empty where it names none."""
    index, bus = number_of(event, "gpu"), text_of(event, "bus_id")
    if index is None and bus:
        index = gpu_at(node, bus)
    return bus if index is None else str(index)
