"""Files and texts other than logs: dumps and tool outputs. Each kind of file is a function and a row in a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from collectors.formats import BadFormat, flight_recorder, kineto, ras, stack_text
from collectors.node.logs import file_names as names
from collectors.samples.collectives import RankTrace, RasReport, RecorderDump
from collectors.samples.logs import CommProgress, LogEvent
from collectors.samples.stacks import StackDump
from hangtop.session.folder.files import Member


@dataclass(frozen=True, slots=True)
class Recognised:
    """One file and the kind it was recognised as. ``kind`` is empty for a file that was not used; ``why`` says why."""

    name: str
    kind: str
    size: int
    lines: int = 0
    events: int = 0
    why: str = ""


@dataclass(slots=True)
class Contents:
    """The contents of all files, before they are joined."""

    files: list[Recognised] = field(default_factory=list)
    events: list[LogEvent] = field(default_factory=list)
    progress: list[CommProgress] = field(default_factory=list)
    members: list[tuple[str, int, int, int]] = field(default_factory=list)
    """(host, pid, rank, size) for every communicator that an NCCL log names."""
    recorders: list[RecorderDump] = field(default_factory=list)
    ras: list[RasReport] = field(default_factory=list)
    stacks: list[tuple[str, int | None, StackDump]] = field(default_factory=list)
    """(node, rank if the file's name contains it, dump)."""
    traces: list[RankTrace] = field(default_factory=list)
    newest: float = 0.0
    """When the newest file was written; 0 without files."""


def _trace(member: Member, contents: Contents) -> int:
    """A profiler's trace, read as a stream: it may be far larger than :data:`~files.LARGEST_WHOLE`."""
    chunks = member.chunks()
    trace = kineto.of_stream(lambda _: next(chunks, b""), member.name)
    member.damage = member.damage or trace.why
    if not trace.events:
        raise BadFormat(member.damage or "it has no kernel and no operator")
    contents.traces.append(trace)
    return trace.events


def _recorder(member: Member, contents: Contents) -> int:
    dump = flight_recorder.read(member.whole(), member.name)
    contents.recorders.append(dump)
    return len(dump.collectives)


def _ras(text: str, member: Member, contents: Contents) -> int:
    report = ras.parse(text, at=member.modified)
    contents.ras.append(report)
    return len(report.communicators)


def _stacks(text: str, member: Member, contents: Contents) -> int:
    hints = names.hints(member.name)
    # a process without a pid gets a negative number, unique to this file
    saved = stack_text.read(text, at=member.modified, pid=-1 - len(contents.stacks))
    rank = hints.rank if len(saved) == 1 else None
    contents.stacks += [(hints.host, rank if one.rank is None else one.rank, one.dump) for one in saved]
    return len(saved)


class Tool(NamedTuple):
    """A kind of file or text that a tool writes or prints."""

    kind: str
    looks_like: Callable[[Any], bool]
    """Whether the beginning of a file or text is of this kind."""
    take: Callable[..., int]
    """Adds a file or text to the contents; returns how many items it held. Raises :class:`BadFormat`."""


FILES = (
    Tool("profiler trace", kineto.looks_like, _trace),
    Tool("flight recorder dump", flight_recorder.looks_like, _recorder),
)
"""Recognised by their first bytes; read by ``take(member, contents)``."""
TEXTS = (Tool("NCCL RAS report", ras.looks_like, _ras), Tool("stacks", stack_text.looks_like, _stacks))
"""Looked for at the beginning of a text, which is also read as a log: many a job's output begins with such a report.
Read by ``take(text, member, contents)``."""
