"""Files and texts that are no logs: dumps, and what tools print. A kind of file is a function and a line in a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from collectors.fleet.clean import clean
from collectors.formats import BadFormat, flight_recorder, kineto, nvidia_smi_text, ras, stack_text
from collectors.node.logs import file_names as names
from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.gpus import GpuProcesses
from collectors.samples.logs import CommProgress, LogEvent
from collectors.samples.stacks import StackDump
from collectors.samples.traces import RankTrace
from hangtop.session.folder.files import Member

LARGEST = 64 << 20
"""Bytes of a document that is read as a whole."""


@dataclass(frozen=True, slots=True)
class Recognised:
    """One file, and what it was taken for. An empty ``kind`` is one that nothing was made of; ``why`` says why."""

    name: str
    kind: str
    size: int
    lines: int = 0
    events: int = 0
    why: str = ""


@dataclass(slots=True)
class Contents:
    """Everything that the files say, as it stands there."""

    files: list[Recognised] = field(default_factory=list)
    events: list[LogEvent] = field(default_factory=list)
    progress: list[CommProgress] = field(default_factory=list)
    members: list[tuple[str, int, int, int]] = field(default_factory=list)
    """(host, pid, rank, size) of every communicator that an NCCL log named."""
    recorders: list[RecorderDump] = field(default_factory=list)
    ras: list[RasReport] = field(default_factory=list)
    stacks: list[tuple[str, int | None, StackDump]] = field(default_factory=list)
    """(node, rank where the file's name tells it, dump)."""
    devices: defaultdict[str, list[NamedTuple]] = field(default_factory=lambda: defaultdict(list))
    """Samples of GPUs by node, as its agent would send them."""
    traces: list[RankTrace] = field(default_factory=list)
    newest: float = 0.0
    """When the newest file was written; 0 without any."""


class Document(NamedTuple):
    """A kind of file, or of what a text holds."""

    kind: str
    looks_like: Callable[[bytes], bool]
    """Told by the first bytes."""
    take: Callable[[bytes, Member, Contents], int]
    """Adds what the file says; gives how many things that were. Raises :class:`BadFormat`."""


def document_of(documents: tuple[Document, ...], member: Member) -> Document | None:
    """Which of the kinds a file is; None where it is none of them."""
    return next((one for one in documents if one.looks_like(member.head)), None)


def read_document(document: Document, member: Member, contents: Contents) -> Recognised:
    """Read a document to its end."""
    data = member.whole(LARGEST)
    if data is None:
        why = f"looks like a {document.kind}, but is larger than {LARGEST >> 20} MiB"
        return Recognised(member.name, "", member.size, why=why)
    try:
        found = document.take(data, member, contents)
    except BadFormat as error:
        return Recognised(member.name, "", len(data), why=f"looks like a {document.kind}: {clean(str(error))[:300]}")
    return Recognised(member.name, document.kind, len(data), data.count(b"\n"), found, member.damage)


def read_trace(member: Member, contents: Contents) -> Recognised:
    """Read a profiler's trace, which may be far larger than what is read as a whole."""
    chunks = member.chunks()
    try:
        trace = kineto.of_stream(lambda _: next(chunks, b""), member.name)
    except BadFormat as error:
        return Recognised(member.name, "", member.size, why=f"looks like a profiler trace: {error}")
    why = member.damage or trace.why
    if not trace.events:
        return Recognised(member.name, "", member.size, why=why or "a trace without any kernel or operator")
    contents.traces.append(trace)
    return Recognised(member.name, "profiler trace", member.size, 0, trace.events, why)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _node(member: Member) -> str:
    return names.hints(member.name).host


def _recorder(data: bytes, member: Member, contents: Contents) -> int:
    dump = flight_recorder.read(data, member.name)
    contents.recorders.append(dump)
    return len(dump.collectives)


def _ras(data: bytes, member: Member, contents: Contents) -> int:
    report = ras.parse(_text(data), node=_node(member), at=member.modified)
    contents.ras.append(report)
    return len(report.communicators)


def _stacks(data: bytes, member: Member, contents: Contents) -> int:
    hints = names.hints(member.name)
    # a process without a number gets one that no process has, another one for each file
    saved = stack_text.read(_text(data), at=member.modified, pid=-1 - len(contents.stacks))
    rank = hints.rank if len(saved) == 1 else None
    contents.stacks += [(hints.host, rank if one.rank is None else one.rank, one.dump) for one in saved]
    return len(saved)


def _nvidia_smi(data: bytes, member: Member, contents: Contents) -> int:
    saved = nvidia_smi_text.read(_text(data))
    node = contents.devices[_node(member)]
    node += [part for row in saved.rows for part in (row.facts, row.sample)]
    node += [*saved.faults, GpuProcesses(list(dict.fromkeys(saved.apps)))]
    return len(saved.rows) + len(saved.apps)


DOCUMENTS: tuple[Document, ...] = (
    Document("flight recorder dump", flight_recorder.looks_like, _recorder),
    Document("NCCL RAS report", lambda head: head.lstrip()[:1] == b"{" and ras.looks_like(_text(head)), _ras),
)
"""Files that are read as a whole, the surest first."""

TOOLS: tuple[Document, ...] = (
    Document("NCCL RAS report", lambda head: ras.looks_like(_text(head)), _ras),
    Document("stacks", lambda head: stack_text.looks_like(_text(head)), _stacks),
    Document("nvidia-smi output", lambda head: nvidia_smi_text.looks_like(_text(head[:4096])), _nvidia_smi),
)
"""What tools print, looked for where a text begins: it is read as a log too, as many a job's output begins so."""
