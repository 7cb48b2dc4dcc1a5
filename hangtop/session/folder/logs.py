"""One log: its events, and what only its end tells: whose lines without a label are, and how it ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collectors.fleet.clean import clean
from collectors.node.logs import file_names as names
from collectors.node.logs import times
from collectors.node.logs.file_names import Hints
from collectors.node.logs.parser import LogParser
from collectors.samples.logs import LogEvent
from collectors.samples.values import Value
from hangtop.session.folder.documents import Contents
from hangtop.session.folder.files import Member
from hangtop.session.folder.runs import TAIL, LogEnd, last_line, last_run, outlived

EVENTS = 20_000
"""Events of one log that are kept."""
LAST = 4096
"""Bytes of the end of a log in which its last time is looked for."""
ORDINARY = 40
"""Lines behind a logged error that show that the run went on; shutting down prints fewer."""
_OF_NOBODY = ("elastic.", "launcher.", "slurm.", "kernel.")
"""Kinds that launchers and kernels print: the file's rank is not theirs."""


def read_log(member: Member, chunks: Iterable[bytes]) -> tuple[int, Contents]:
    """Read a log, which is given in pieces: its lines, and what it says."""
    hints, said = names.hints(member.name), Contents()
    parser = LogParser(member.name, rank=hints.rank, host=hints.host, now=member.modified)
    events: list[LogEvent] = []
    tail = b""
    for chunk in chunks:
        tail = (tail + chunk)[-TAIL:]
        events += parser.feed(chunk)
        if len(events) > EVENTS:
            del events[EVENTS // 2 : -EVENTS // 4]  # the beginning tells the cause, the end how it ended
    events += parser.close()
    end = LogEnd(tail, parser.line)
    begun = last_run(events, hints, end)
    earlier = [event for event in events if event.line < begun and parser.reader.last_said(event) < begun]
    before = set(map(id, earlier))
    # what is true whatever follows was true of the run before; a machine's words are of both
    events = [event for event in events if id(event) not in before or event.kind.startswith("kernel.")]
    events = [event for event in events if event.kind != "job.started"]
    over = outlived(events, hints, end, parser.reader.last_said)
    left = [event for event, done in zip(events, over, strict=True) if not done]
    last = times.last(tail[-LAST:].decode("utf-8", "replace"), member.modified)
    said.events = [_cleaned(event) for event in _completed(left, parser, hints, last)]
    said.progress = [one for one in parser.progress() if one.line >= begun or not one.line]
    living = {(one.host, one.pid) for one in said.progress} | {(event.host, event.pid) for event in events}
    said.members = [rank for rank in parser.coll.ranks() if not begun or rank[:2] in living]
    return parser.line - 1, said


def _completed(events: Sequence[LogEvent], parser: LogParser, hints: Hints, last: float | None) -> list[LogEvent]:
    """The events with what only the log's end tells, and one more for the end itself."""
    owner = _owner(events)
    end = parser.line - 1
    raised = max((event.line for event in events if _ends_a_process(event)), default=-1)
    stopped = [event.line for event in events if event.data.get("signature") == "interrupt"]
    told = []
    for event in events:
        data: dict[str, Value] = {}
        rank = owner if event.rank is None and _own(event) else event.rank
        if rank is None and hints.local_rank is not None and "local_rank" not in event.data:
            data["local_rank"] = hints.local_rank
        if event.data.get("logged") is True or event.kind == "log.error":
            # somebody was there to log it: another exception ended the process, or none did
            behind = last_line(event) + 1
            goes_on = min((line for line in stopped if line > event.line), default=end) - behind
            if raised > behind or goes_on > ORDINARY:
                data["survived"] = True
        told.append(event._replace(rank=rank, data={**event.data, **data}) if data or rank != event.rank else event)
    ended: dict[str, Value] = {"lines": end}
    if last is not None:
        ended["last"] = last
    rank = hints.rank
    if rank is None and hints.local_rank is not None:
        rank, ended["local_rank"] = owner, hints.local_rank
    return [*told, LogEvent("log.end", last, rank, hints.host, None, parser.reader.source, end, "", ended)]


def _ends_a_process(event: LogEvent) -> bool:
    """An exception that nobody logged or sent: Control-C is a person's."""
    told = event.kind == "python.exception" and "logged" not in event.data and _own(event)
    return told and event.data.get("type") != "" and event.data.get("signature") != "interrupt"


def _own(event: LogEvent) -> bool:
    """Whether an event speaks of the process that writes the log."""
    if event.data.get("told") == "exit" and not {"signal", "exitcode"} & event.data.keys():
        return False  # what a parent says of a child
    return not event.kind.startswith(_OF_NOBODY) and event.data.get("launcher") is not True


def _owner(events: Sequence[LogEvent]) -> int | None:
    """The one rank whose label the log has; None where it has several or none, or others speak: NCCL, a launcher."""
    if any(event.kind.startswith(("launcher.exit", "elastic.")) for event in events):
        return None
    ranks = {event.rank for event in events if event.rank is not None}
    processes = {(e.host, e.pid) for e in events if e.pid is not None and e.kind.startswith("nccl.")}
    return next(iter(ranks)) if len(ranks) == 1 and len(processes) <= 1 else None


def _cleaned(event: LogEvent) -> LogEvent:
    """Text of a log is somebody else's: without control codes it may go to a terminal."""
    data = {name: clean(value) if isinstance(value, str) else value for name, value in event.data.items()}
    return event._replace(text=clean(event.text), host=clean(event.host), data=data)
