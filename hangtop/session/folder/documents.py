"""Files that are read as a whole: dumps, and what tools print. A kind of file is a function and a line in the table."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from collectors.fleet.clean import clean
from collectors.formats import (
    BadFormat,
    flight_recorder,
    kineto,
    nvidia_smi_text,
    nvlink_text,
    ras,
    rdma_link,
    smi_heading,
    stack_text,
    verbs_text,
)
from collectors.node.logs import elastic_report as elastic
from collectors.node.logs import file_names as names
from collectors.node.network.ib_tools import parse_ibstat, parse_perfquery
from collectors.samples.gpus import GpuProcesses
from collectors.samples.logs import LogEvent
from hangtop.session.folder.contents import Contents, Recognised
from hangtop.session.folder.members import Member

LARGEST = 64 << 20
"""Bytes of a document that is read as a whole."""
TOOL = 16 << 20
"""Bytes of what a tool printed: hundreds of its answers."""
STRAY = 4
"""Lines around a tool's output that are nobody's: prompts, marks of code, remarks."""
FIRST = 4
"""Lines at the beginning of a text that may be prompts, marks of code, or empty."""
_PROMPT = re.compile(
    r"^(?:```\w{0,12}|\s{0,4}(?:\([\w.-]{1,40}\) ?)?"
    r"(?:\[?(?P<user>[\w.-]{1,40})@(?P<host>[\w.-]{1,80})[: ]?[^\r\n$#>%]{0,80}\]?\s?)?"
    r"[$#>%] {0,2}\S[^\r\n]{0,200})\s{0,4}$"
)
_REMARK = re.compile(r"#[^\r\n:]{0,80}: ")
"""What a tool prints behind a sharp of its own."""


class Document(NamedTuple):
    """A kind of file that is read as a whole."""

    kind: str
    looks_like: Callable[[bytes, str], bool]
    """Told by the first bytes and the name."""
    take: Callable[[bytes, Member, Contents], int]
    """Adds what the file says; gives how many things that were. Raises :class:`BadFormat`."""
    limit: int = LARGEST
    others: Callable[[str], int] = lambda _: 0
    """How many lines of a text are not the tool's: with more than a few it is a log that the tool's output heads."""


class Copied(NamedTuple):
    """A text that somebody copied from a terminal, without its prompts; ``host`` is empty where no prompt names one."""

    text: str
    host: str


def copied(text: str) -> Copied:
    """The text behind the prompts, marks of code and empty lines that it begins with."""
    host = ""
    for _ in range(FIRST):
        line, end, rest = text.partition("\n")
        prompt = None if _REMARK.match(line) else _PROMPT.match(line)
        if not end or (line.strip() and prompt is None):
            break
        host = host or (prompt.group("host") or "" if prompt is not None else "")
        text = rest
    return Copied(text, host)


def document_of(member: Member) -> tuple[Document, bool] | None:
    """What kind of document a file is, and whether a log stands below it; None where it is none."""
    head = _text(member.head)
    behind = copied(head).text.encode()
    for document in DOCUMENTS:
        if document.looks_like(member.head, member.name) or document.looks_like(behind, member.name):
            return document, document.others(head) > STRAY
    return None


def read_document(document: Document, member: Member, contents: Contents) -> Recognised | bytes:
    """Read a document to its end; the text of a tool's that has nothing of the kind is given back."""
    data = member.whole(document.limit)
    if data is None:
        why = f"looks like a {document.kind}, but is larger than {document.limit >> 20} MiB"
        return Recognised(member.name, "", member.size, why=why)
    try:
        found = document.take(data, member, contents)
    except BadFormat as error:
        if document.limit <= TOOL:
            return data
        return Recognised(member.name, "", len(data), why=f"looks like a {document.kind}: {clean(str(error))[:300]}")
    return Recognised(member.name, document.kind, len(data), data.count(b"\n"), found, member.damage)


def read_above(document: Document, member: Member, contents: Contents) -> int:
    """Read the tool's output with which a log begins; how many things it told."""
    try:
        return document.take(member.head, member, contents)
    except BadFormat:
        return 0


def read_trace(member: Member, contents: Contents) -> Recognised:
    """Read a profiler's trace, which may be far larger than what is read as a whole."""
    chunks = member.chunks()
    try:
        trace = kineto.of_stream(lambda _: next(chunks, b""), member.name)
    except BadFormat as error:
        return Recognised(member.name, "", member.size, why=f"looks like a profiler trace: {error}")
    trace = trace._replace(size=member.size, why=member.damage or trace.why)
    contents.traces.append(trace)
    return Recognised(member.name, "profiler trace", member.size, 0, trace.events, trace.why)


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
    local = {} if hints.local_rank is None else {"local_rank": hints.local_rank}
    fields = {name: clean(value) if isinstance(value, str) else value for name, value in said.data.items()} | local
    text = str(fields.get("message", ""))[:4000]
    contents.events.append(LogEvent(said.kind, said.at, hints.rank, hints.host, None, member.name, 1, text, fields))
    return 1


def _beside_ras(text: str) -> int:
    """Lines that are not the report's: torch's ``fr_trace`` below it is read as a log."""
    return max(ras.others(text), STRAY + 1 if "Not all ranks joining collective" in text else 0)


def _ras(data: bytes, member: Member, contents: Contents) -> int:
    report = ras.parse(_text(data), node=_node(member), at=_at(member))
    contents.ras.append(report)
    return len(report.communicators)


def _stacks(data: bytes, member: Member, contents: Contents) -> int:
    hints = names.hints(member.name)
    # a process without a number gets one that no process has, another one for each file
    saved = stack_text.read(_text(data), at=_at(member), pid=hints.pid or -1 - len(contents.stacks))
    rank = hints.rank if len(saved) == 1 else None
    contents.stacks += [(hints.host, rank if one.rank is None else one.rank, one.dump) for one in saved]
    return len(saved)


def _nvidia_smi(data: bytes, member: Member, contents: Contents) -> int:
    saved = nvidia_smi_text.read(_text(data))
    if not saved.form or not (saved.rows or saved.apps or any(fault.bus_id for fault in saved.faults)):
        raise BadFormat("it has no rows of GPUs")
    node = contents.devices[_node(member)]
    node += [part for row in saved.rows for part in (row.facts, row.sample)]
    node += [*saved.faults, GpuProcesses(list(dict.fromkeys(saved.apps)))]
    return len(saved.rows) + len(saved.faults) + len(saved.apps)


def _nvlink(data: bytes, member: Member, contents: Contents) -> int:
    links = nvlink_text.parse(_text(data))
    if not links:
        raise BadFormat("it lists no links")
    rows = nvidia_smi_text.read(_text(data)).rows
    contents.devices[_node(member)] += [*(part for row in rows for part in (row.facts, row.sample)), *links]
    return len(links)


def _ibstat(data: bytes, member: Member, contents: Contents) -> int:
    ports = parse_ibstat(_text(data))
    if not ports:
        raise BadFormat("it lists no ports")
    contents.devices[_node(member)] += ports
    return len(ports)


def _rdma_link(data: bytes, member: Member, contents: Contents) -> int:
    ports = rdma_link.parse(_text(data))
    contents.devices[_node(member)] += ports
    return len(ports)


def _verbs(data: bytes, member: Member, contents: Contents) -> int:
    ports = verbs_text.parse(_text(data))
    contents.devices[_node(member)] += ports
    return len(ports)


def _perfquery(data: bytes, member: Member, contents: Contents) -> int:
    blocks = parse_perfquery(_text(data))
    if not blocks:
        raise BadFormat("it has no counters")
    contents.counters[_node(member)] += blocks
    return len(blocks)


DOCUMENTS: tuple[Document, ...] = (
    Document(
        "flight recorder dump", lambda head, _: flight_recorder.looks_like(head), _recorder, flight_recorder.LARGEST
    ),
    Document(
        "torchelastic error file",
        lambda head, name: name.endswith(".json") and b'"message"' in head and b"py_callstack" in head,
        _error_file,
    ),
    Document("NCCL RAS report", lambda head, _: ras.looks_like(_text(head)), _ras, others=_beside_ras),
    Document("stacks", lambda head, _: stack_text.looks_like(_text(head)), _stacks, TOOL, stack_text.others),
    Document("NVLink states", lambda head, _: nvlink_text.looks_like(_text(head[:4096])), _nvlink, TOOL // 2),
    Document(
        "nvidia-smi output",
        lambda head, _: nvidia_smi_text.looks_like(_text(head[:4096])),
        _nvidia_smi,
        TOOL // 2,
        smi_heading.others,
    ),
    Document("ibstat output", lambda head, _: head.lstrip().startswith(b"CA '"), _ibstat),
    Document("ports of verbs", lambda head, _: verbs_text.looks_like(_text(head[:4096])), _verbs),
    Document("rdma link output", lambda head, _: rdma_link.looks_like(_text(head[:4096])), _rdma_link),
    Document("perfquery output", lambda head, _: b"ounters: Lid " in head[:400], _perfquery),
)
"""Kinds of documents, the surest first; what is none of them is read as a log."""
