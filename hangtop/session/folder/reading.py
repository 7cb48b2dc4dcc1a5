"""Reads every file as what it is. A kind of file is one function here and one line in :data:`DOCUMENTS`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from collectors.fleet.clean import clean
from collectors.formats import (
    BadFormat,
    flight_recorder,
    kineto,
    nvidia_smi_text,
    nvlink_text,
    pyspy_text,
    ras,
    rdma_link,
    smi_heading,
    verbs_text,
)
from collectors.node.logs.families import containers, elastic
from collectors.node.logs.lines import names
from collectors.node.logs.parser import LogParser
from collectors.node.network import ibstat, perfquery
from collectors.node.resources import Allocator
from collectors.samples.logs import CommSpeed, LogEvent
from hangtop.session.folder.binary import is_binary
from hangtop.session.folder.contents import Contents, Recognised
from hangtop.session.folder.logs import finished, kind_of_log
from hangtop.session.folder.members import Member, Unreadable, members
from hangtop.session.folder.parting import parting
from hangtop.session.folder.passed import TAIL, passed
from hangtop.session.folder.prompts import copied
from hangtop.session.folder.stored import stored

DOCUMENT = 64 << 20
"""Bytes of a document that is read as a whole."""
EVENTS = 20_000
"""Events of one log that are kept."""
STRAY = 8
"""Lines around a tool's output that are nobody's: prompts, marks of code, remarks."""
TOOL = 16 << 20
"""Bytes of what a tool printed: hundreds of its answers."""
Advance = Callable[[int], None]


class _Document(NamedTuple):
    """A kind of file that is read as a whole."""

    kind: str
    looks_like: Callable[[bytes, str], bool]
    """Told by the first bytes and the name."""
    take: Callable[[bytes, Member, Contents], int]
    """Adds what it says; gives how many things that were. Raises :class:`BadFormat`."""
    limit: int = DOCUMENT
    others: Callable[[str], int] = lambda _: 0
    """How many lines of a text are not the tool's: with more than a few it is a log that the tool's output heads."""


def read(paths: Sequence[Path], advance: Advance = lambda _: None) -> Contents:
    """Everything under the paths. ``advance`` is told how many bytes were read from disk."""
    Allocator().reuse_blocks()
    contents = Contents()
    for member in members(paths, advance):
        if isinstance(member, Unreadable):
            contents.files.append(Recognised(member.name, "", 0, why=member.why))
            continue
        if member.modified is not None:
            contents.newest = max(member.modified, contents.newest or 0.0)
        contents.files.append(_read(member, contents))
    return contents


def _read(member: Member, contents: Contents) -> Recognised:
    if not member.head:
        return Recognised(member.name, "empty", 0)
    if kineto.looks_like(member.head):
        return _trace(member, contents)
    behind = copied(_text(member.head)).text.encode()
    for document in DOCUMENTS:
        if document.looks_like(member.head, member.name) or document.looks_like(behind, member.name):
            headed = document.others(_text(member.head)) > STRAY
            return _headed(document, member, contents) if headed else _whole(document, member, contents)
    if is_binary(member.head):
        return Recognised(member.name, "", len(member.head), why="binary, and no kind that is known")
    return _log(member, contents)


def _whole(document: _Document, member: Member, contents: Contents) -> Recognised:
    data = member.whole(document.limit)
    if data is None:
        why = f"looks like a {document.kind}, but is larger than {document.limit >> 20} MiB"
        return Recognised(member.name, "", member.size, why=why)
    try:
        found = document.take(data, member, contents)
    except BadFormat as error:
        return Recognised(member.name, "", len(data), why=f"looks like a {document.kind}: {clean(str(error))[:300]}")
    return Recognised(member.name, document.kind, len(data), data.count(b"\n"), found, member.damage)


def _headed(document: _Document, member: Member, contents: Contents) -> Recognised:
    """A log that begins with what a tool printed: both are read."""
    try:
        found = document.take(member.head, member, contents)
    except BadFormat:
        found = 0
    log = _log(member, contents)
    return replace(log, kind=f"{log.kind}, {document.kind} above it", events=log.events + found)


def _trace(member: Member, contents: Contents) -> Recognised:
    """A profiler's trace, which may be far larger than what is read as a whole."""
    chunks = member.chunks()
    try:
        trace = kineto.of_stream(lambda _: next(chunks, b""), member.name)
    except BadFormat as error:
        return Recognised(member.name, "", member.size, why=f"looks like a profiler trace: {error}")
    trace = trace._replace(size=member.size, why=member.damage or trace.why)
    contents.traces.append(trace)
    return Recognised(member.name, "profiler trace", member.size, 0, trace.events, trace.why)


def _hints(member: Member, contents: Contents) -> names.Hints:
    """What a log's name tells; where the job has a master, that is rank 0, and the first worker is rank 1."""
    hints, role = names.hints(member.name), names.role(member.name)
    if role is None:
        return hints
    job, what, number = role
    if what == "master":
        contents.masters.add(job)
        return hints._replace(rank=0) if number == 0 and hints.rank is None else hints
    return hints._replace(rank=number + 1) if job in contents.masters and hints.rank == number else hints


def _log(member: Member, contents: Contents) -> Recognised:
    hints = _hints(member, contents)
    now = member.modified if member.modified is not None else time.time()
    parts, turned = stored(member, now)
    parser = LogParser(member.name + turned, rank=hints.rank, pid=hints.pid, host=hints.host, now=now, tail=TAIL)
    events: list[LogEvent] = []
    for chunk in parts:
        events += parser.feed(chunk)
        if len(events) > EVENTS:
            del events[EVENTS // 2 : -EVENTS // 4]  # the beginning tells the cause, the end how it ended
    events += parser.close()
    last = parting(parser, now) if not any(event.kind.startswith("kernel.") for event in events) else None
    events += [last] if last is not None else []
    over = passed(events, parser, hints, now, b"" if turned else member.head)
    contents.passed += [_cleaned(event) for event, done in zip(events, over, strict=True) if done]
    left = [event for event, done in zip(events, over, strict=True) if not done]
    events = [_cleaned(event) for event in finished(left, parser, hints)]
    progress = parser.progress()
    contents.events += events
    contents.progress += progress
    contents.members += parser.coll.ranks()
    speeds = [_speed(speed) for speed in parser.speeds.told()]
    contents.speeds += speeds
    said = sum(event.kind != "log.end" for event in events) + len(progress) + len(speeds)
    kind = "NCCL Inspector file" if speeds else kind_of_log(member.head, events, progress, hints)
    return Recognised(member.name, kind, member.size, parser.line - 1, said, member.damage)


def _cleaned(event: LogEvent) -> LogEvent:
    """Text of a log is somebody else's: without control codes it may go to a terminal."""
    data = {name: clean(value) if isinstance(value, str) else value for name, value in event.data.items()}
    return event._replace(text=clean(event.text), host=clean(event.host), data=data)


def _speed(speed: CommSpeed) -> CommSpeed:
    return speed._replace(comm=clean(speed.comm), name=clean(speed.name), host=clean(speed.host), op=clean(speed.op))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _at(member: Member) -> float:
    return member.modified if member.modified is not None else 0.0


def _node(member: Member) -> str:
    """The node by the file's name, else by the prompt of a terminal that the text begins with."""
    return names.hints(member.name).host or copied(_text(member.head)).host


def _recorder(data: bytes, member: Member, contents: Contents) -> int:
    dump = flight_recorder.read(data, member.name)
    contents.recorders.append(dump)
    return len(dump.collectives)


def _error_file(data: bytes, member: Member, contents: Contents) -> int:
    said = elastic.error_file(data)
    if said is None:
        raise BadFormat("it has no message")
    hints = names.hints(member.name)
    fields = dict(said.data)
    if hints.local_rank is not None:
        fields["local_rank"] = hints.local_rank
    text = str(fields.get("message", ""))
    event = LogEvent(said.kind, said.at, hints.rank, hints.host, None, member.name, 1, text[:4000], fields)
    contents.events.append(_cleaned(event))
    return 1


def _ras(data: bytes, member: Member, contents: Contents) -> int:
    report = ras.parse(_text(data), node=_node(member), at=_at(member))
    contents.ras.append(report)
    return len(report.communicators)


def _pyspy(data: bytes, member: Member, contents: Contents) -> int:
    hints = names.hints(member.name)
    # a dump that names no process gets a number that no process has, another one for each file
    dumps = pyspy_text.read(_text(data), at=_at(member), pid=hints.pid or -1 - len(contents.stacks))
    contents.stacks += [(hints.host, hints.rank if len(dumps) == 1 else None, dump) for dump in dumps]
    return len(dumps)


def _nvidia_smi(data: bytes, member: Member, contents: Contents) -> int:
    saved = nvidia_smi_text.read(_text(data))
    node = _node(member)
    told = [said for line in _text(data).splitlines() for said in containers.read(line) if said.kind == "gpu.unseen"]
    if not saved.form and not told:
        raise BadFormat("it has no rows of GPUs")
    contents.events += [
        LogEvent(said.kind, None, None, node, None, member.name, 0, str(said.data["error"]), said.data) for said in told
    ]
    contents.gpus.setdefault(node, []).extend(saved.rows)
    contents.gpu_faults.setdefault(node, []).extend(saved.faults)
    contents.gpu_processes.setdefault(node, []).extend(saved.apps)
    return len(saved.rows) + len(saved.faults) + len(saved.apps)


def _nvlink(data: bytes, member: Member, contents: Contents) -> int:
    links = nvlink_text.parse(_text(data))
    if not links:
        raise BadFormat("it lists no links")
    contents.nvlinks.setdefault(_node(member), []).extend(links)
    contents.gpus.setdefault(_node(member), []).extend(nvidia_smi_text.read(_text(data)).rows)
    return len(links)


def _ibstat(data: bytes, member: Member, contents: Contents) -> int:
    ports = ibstat.parse(_text(data))
    if not ports:
        raise BadFormat("it lists no ports")
    contents.ports.setdefault(_node(member), []).extend(ports)
    return len(ports)


def _rdma_link(data: bytes, member: Member, contents: Contents) -> int:
    ports = rdma_link.parse(_text(data))
    contents.ports.setdefault(_node(member), []).extend(ports)
    return len(ports)


def _verbs(data: bytes, member: Member, contents: Contents) -> int:
    ports = verbs_text.parse(_text(data))
    contents.ports.setdefault(_node(member), []).extend(ports)
    return len(ports)


def _perfquery(data: bytes, member: Member, contents: Contents) -> int:
    blocks = perfquery.parse(_text(data))
    if not blocks:
        raise BadFormat("it has no counters")
    contents.counters.setdefault(_node(member), []).extend(blocks)
    return len(blocks)


DOCUMENTS: tuple[_Document, ...] = (
    _Document(
        "flight recorder dump", lambda head, _: flight_recorder.looks_like(head), _recorder, flight_recorder.LARGEST
    ),
    _Document(
        "torchelastic error file",
        lambda head, name: name.endswith(".json") and b'"message"' in head and b"py_callstack" in head,
        _error_file,
    ),
    _Document("NCCL RAS report", lambda head, _: ras.looks_like(_text(head)), _ras, others=ras.others),
    _Document("py-spy dump", lambda head, _: pyspy_text.looks_like(_text(head)), _pyspy, TOOL),
    _Document("NVLink states", lambda head, _: nvlink_text.looks_like(_text(head[:4096])), _nvlink, TOOL // 2),
    _Document(
        "nvidia-smi output",
        lambda head, _: nvidia_smi_text.looks_like(_text(head[:4096])),
        _nvidia_smi,
        TOOL // 2,
        smi_heading.others,
    ),
    _Document("ibstat output", lambda head, _: head.lstrip().startswith(b"CA '"), _ibstat),
    _Document("ports of verbs", lambda head, _: verbs_text.looks_like(_text(head[:4096])), _verbs),
    _Document("rdma link output", lambda head, _: rdma_link.looks_like(_text(head[:4096])), _rdma_link),
    _Document("perfquery output", lambda head, _: b"ounters: Lid " in head[:400], _perfquery),
)
"""Kinds of documents, the surest first; what is none of them is read as a log."""
