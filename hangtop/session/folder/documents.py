"""Files and texts that are no logs: dumps, and what tools print. A kind of file is a function and a row in a table."""

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
    traces: list[RankTrace] = field(default_factory=list)
    newest: float = 0.0
    """When the newest file was written; 0 without any."""


def _trace(member: Member, contents: Contents) -> int:
    """A profiler's trace, which may be far larger than what is read as a whole."""
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
    # a process without a number gets one that no process has, another one for each file
    saved = stack_text.read(text, at=member.modified, pid=-1 - len(contents.stacks))
    rank = hints.rank if len(saved) == 1 else None
    contents.stacks += [(hints.host, rank if one.rank is None else one.rank, one.dump) for one in saved]
    return len(saved)


class Tool(NamedTuple):
    """What a tool writes or prints."""

    kind: str
    looks_like: Callable[[Any], bool]
    """Told by the beginning of a file, or of a text."""
    take: Callable[..., int]
    """Adds what a file or text says to the contents; gives how many things that were. Raises :class:`BadFormat`."""


FILES = (
    Tool("profiler trace", kineto.looks_like, _trace),
    Tool("flight recorder dump", flight_recorder.looks_like, _recorder),
)
"""Told by their first bytes; taken by ``take(member, contents)``."""
TEXTS = (Tool("NCCL RAS report", ras.looks_like, _ras), Tool("stacks", stack_text.looks_like, _stacks))
"""Looked for where a text begins: it is read as a log too, as many a job's output begins so. Taken by
``take(text, member, contents)``."""
