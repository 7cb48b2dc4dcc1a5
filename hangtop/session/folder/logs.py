"""One log: its events, and what only its end shows: which rank wrote unlabelled lines, and which faults it outlived.

Two things show that an event is no fault of the run: a later run follows in the same file, or training steps continue
(or the run's end is logged) after it. A run can only outlive faults without a rank, or of the process that writes the
log: in a log of many ranks, the others continue for a while after one has failed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from collectors.fleet.clean import clean
from collectors.node.logs import file_names as names
from collectors.node.logs import steps, times
from collectors.node.logs.file_names import Hints
from collectors.node.logs.parser import LogParser
from collectors.samples import Value
from collectors.samples.logs import LogEvent
from hangtop.session.folder.documents import Contents
from hangtop.session.folder.files import Member

EVENTS = 20_000
"""Events of one log that are kept."""
ORDINARY = 40
"""Ours: lines after a logged error, or from a fault to the message that training is complete, that show that the run
continued; a shutdown, and the delay of another process, are fewer."""
_OF_NOBODY = ("elastic.", "launcher.", "slurm.", "kernel.")
"""Kinds of events from launchers and kernels: they do not belong to the file's rank."""
TAIL = 64 * 1024
"""Bytes at the end of a log in which steps are looked for."""
LINES, STEPS = 200, 5
"""Ours: lines (or states of a progress bar) and different steps after a fault that show that the run continued. Fewer
may be output from before the fault: a process's buffer, some kilobytes, is written after its traceback."""
LAUNCHERS = ("elastic.", "launcher.")
"""Kinds of events from launchers: a log with such an event is not the log of a single process."""
TRUE_FOREVER = ("kernel.", "nccl.", "job.", "log.end", "elastic.finished", "torch.program_exit")
"""Kinds of events that stay true whatever follows (kernel, NCCL, settings); all others report a failure or a wait."""
RUN_ENDS = (
    "elastic.failure", "elastic.finished", "elastic.signal", "launcher.exit", "slurm.cancelled", "job.finished",
)  # fmt: skip
"""Events that end a run as a whole; the next ``job.started`` begins the next run."""


def read_log(member: Member, chunks: Iterable[bytes]) -> tuple[int, Contents]:
    """Read a log from its chunks: its number of lines, and its contents."""
    hints, said = names.hints(member.name), Contents()
    parser = LogParser(member.name, rank=hints.rank, host=hints.host, now=member.modified)
    events: list[LogEvent] = []
    tail = b""
    for chunk in chunks:
        tail = (tail + chunk)[-TAIL:]
        events += parser.feed(chunk)
        if len(events) > EVENTS:
            del events[EVENTS // 2 : -EVENTS // 4]  # the beginning shows the cause, the end the outcome
    events += parser.close()
    end = LogEnd(tail, parser.line)
    begun, last_said = last_run(events, hints), parser.reader.last_said
    # kernel messages hold for both runs
    events = [event for event in events if event.kind.startswith("kernel.") or last_said(event) >= begun]
    over = outlived(events, hints, end, last_said)
    left = [event for event, done in zip(events, over, strict=True) if not done]
    last = times.last(tail.decode("utf-8", "replace"), member.modified)
    said.events = [_cleaned(event) for event in _completed(left, parser, hints, last, end.last_step)]
    said.progress = [one for one in parser.collectives.known() if one.line >= begun or not one.line]
    said.members = list(parser.collectives.ranks())
    return parser.line - 1, said


def _completed(
    events: Sequence[LogEvent], parser: LogParser, hints: Hints, last: float | None, step: steps.StepSeen | None
) -> list[LogEvent]:
    """The events with what only the log's end shows, and a ``log.end`` event."""
    owner = _owner(events)
    end = parser.line - 1
    raised = max((event.line for event in events if _ends_a_process(event)), default=-1)
    completed = []
    for event in events:
        data: dict[str, Value] = {}
        rank = owner if event.rank is None and _own(event) else event.rank
        if rank is None and hints.local_rank is not None and "local_rank" not in event.data:
            data["local_rank"] = hints.local_rank
        if event.data.get("logged") is True or event.kind == "log.error":
            # the process lived to log this exception: another exception ended it, or none did
            behind = last_line(event) + 1
            if raised > behind or end - behind > ORDINARY:
                data["survived"] = True
        completed.append(event._replace(rank=rank, data={**event.data, **data}))
    ended: dict[str, Value] = {"lines": end}
    if step is not None:
        ended |= {"counter": step.name, "step": round(step.value)}
    if last is not None:
        ended["last"] = last
    rank = hints.rank
    if rank is None and hints.local_rank is not None:
        rank, ended["local_rank"] = owner, hints.local_rank
    return [*completed, LogEvent("log.end", last, rank, hints.host, None, parser.reader.source, end, "", ended)]


def _ends_a_process(event: LogEvent) -> bool:
    """Whether an event is the exception that ends the log's process: not a logged one, and not Control-C."""
    raised = event.kind == "python.exception" and "logged" not in event.data and _own(event)
    return raised and event.data.get("type") != "" and event.data.get("signature") != "interrupt"


def _own(event: LogEvent) -> bool:
    """Whether an event is about the process that writes the log."""
    return not event.kind.startswith(_OF_NOBODY) and event.data.get("launcher") is not True


def _owner(events: Sequence[LogEvent]) -> int | None:
    """The only rank whose label the log has; None with several ranks or processes, or with events of a launcher."""
    if any(event.kind.startswith(("launcher.exit", "elastic.")) for event in events):
        return None
    ranks = {event.rank for event in events if event.rank is not None}
    processes = {(e.host, e.pid) for e in events if e.pid is not None and e.kind.startswith("nccl.")}
    return next(iter(ranks)) if len(ranks) == 1 and len(processes) <= 1 else None


def _cleaned(event: LogEvent) -> LogEvent:
    """The event without control codes, which must not reach a terminal."""
    data = {name: clean(value) if isinstance(value, str) else value for name, value in event.data.items()}
    return event._replace(text=clean(event.text), host=clean(event.host), data=data)


# --- earlier runs, and faults that the run outlived ------------------------------------------------------------------


def last_line(event: LogEvent) -> int:
    """The number of the last line of an event's record; the event's text may lack some of the lines."""
    lines = event.data.get("record_lines")
    return event.line + (lines - 1 if isinstance(lines, int) else event.text.rstrip("\n").count("\n"))


def last_run(events: Sequence[LogEvent], hints: Hints) -> int:
    """The line at which the last of several runs in one log begins; 0 with a single run."""
    single = all(event.rank in (None, hints.rank) and not event.kind.startswith(LAUNCHERS) for event in events)
    begun, ended = 0, False
    for event in events:
        if event.kind == "job.started" and ended:
            begun, ended = event.line, False
        ended = ended or _ends_run(event, single=single)
    return begun


def _ends_run(event: LogEvent, *, single: bool) -> bool:
    """Whether the whole run ends here: a launcher, the scheduler or the run reports it; for one process, any fault."""
    if event.kind in RUN_ENDS or event.data.get("launcher") is True:
        return True
    return single and not event.kind.startswith(TRUE_FOREVER) and "logged" not in event.data


def outlived(events: Sequence[LogEvent], hints: Hints, end: LogEnd, last_said: Callable[[LogEvent], int]) -> list[bool]:
    """For each event whether its run outlived it; ``last_said`` gives the line of the event's last repetition."""
    events = [event._replace(line=last_said(event)) for event in events]
    ended = max((event.line for event in events if event.kind in ("job.finished", "elastic.finished")), default=0)
    return [
        not event.kind.startswith(TRUE_FOREVER)
        and event.rank in (None, hints.rank)
        and event.host in ("", hints.host)  # later lines may be from other hosts
        and (end.steps_behind(event) or ended - last_line(event) > ORDINARY)
        for event in events
    ]


class LogEnd:
    """Steps in the last :data:`TAIL` bytes of a log; ``lines`` is the number of the line that would follow."""

    def __init__(self, tail: bytes, lines: int) -> None:
        every = tail.split(b"\n")
        self._first = lines - len(every) + tail.endswith(b"\n")
        self._shown: list[int] = []
        """The number of each line, once for each state of a progress bar."""
        self._steps: list[tuple[int, steps.StepSeen]] = []
        """The number of the line of each step, and the step."""
        for number, line in enumerate(every, self._first):
            for state in line.rstrip(b"\r").split(b"\r"):
                self._shown.append(number)
                text = steps.plain(state)
                if not steps.is_trouble(text) and (seen := steps.counted(text)) is not None:
                    self._steps.append((number, seen))

    @property
    def last_step(self) -> steps.StepSeen | None:
        """The last step that the log counts."""
        return self._steps[-1][1] if self._steps else None

    def steps_behind(self, event: LogEvent) -> bool:
        """Whether steps continue after an event."""
        end = last_line(event)
        behind: dict[str, set[float]] = {}
        for number, step in self._steps:
            if number > end:
                behind.setdefault(step.template, set()).add(step.value)
        if max(map(len, behind.values()), default=0) < STEPS:
            return False
        return end < self._first or len(self._shown) - bisect_right(self._shown, end) > LINES
