"""Lines to events: which rule reads a line, which record is still open, whose event it is."""

from __future__ import annotations

import re
from functools import partial
from typing import Callable, Dict, List, Optional, Tuple

from collectors.node import redact
from collectors.node.logs import attribution, elastic_report, matching, prefixes, times, tracebacks
from collectors.node.logs.prefixes import Line, LogWriter
from collectors.node.logs.rule import Data, ParsedEvent
from collectors.node.logs.tracebacks import Record
from collectors.samples.logs import LogEvent
from collectors.samples.values import MOST_PID, MOST_RANK

PATIENCE = 3000
"""Lines of other streams after which an open record is over."""
_KEPT, _REMEMBERED = 8, 4096
"""Events of one kind of line that are passed on (then the 10th, 100th, 1000th …); kinds and events remembered."""
_ALWAYS = ("kernel.", "elastic.failure", "nccl.init", "nccl.end", "engine.", "job.started")
"""Kinds whose events differ in their numbers alone and all count."""
_LOGGED = re.compile(
    rb"\b(?:Stack|defined at) \(most recent"
    rb"|\b(?:ERROR|WARN(?:ING)?|CRITICAL|EXCEPTION|Error(?! executing job with overrides)|Warning|error|warning)\b"
    rb"[\]|: -]"
)
"""A logger's line; Hydra's, which logs an exception and ends, is none."""
_UNCAUGHT = re.compile(
    r"\ATraceback \(most recent call last\):\s{1,8}File \"[^\"\r\n]{1,400}\", line \d{1,7},"
    r" in (?:<module>|_run_module_as_main|_bootstrap\w{0,8})\s"
)
"""A traceback from the outermost frame of a program, a thread or a child: nobody caught that exception."""
_DAEMONS = re.compile(
    r"kernel|kube|k3s|containerd|dockerd|crio|systemd|sshd|cron|slurm\w*d\b|nv-hostengine|nvidia-|dcgm|node_exporter"
)
"""Programs of a machine, by the name that its journal gives them: an error of theirs is no end of a rank."""
_KERNEL = re.compile(r"\[ {0,5}\d{1,7}\.\d{6}\](?:\[ {0,6}[TC]\d{1,8}\])? ")
_UNDATED = ("python.exception", "python.fatal", "process.signal")
"""Kinds that take the last time before them as a lower bound where their lines have none."""
_SPAWNED = re.compile(
    rb"(?m)(?:-- Process|^\[Rank) (\d{1,6}) (?:terminated with(?: the following error:|\s{0,4}$)|Error Snippet\]:)"
)
"""In front of what torch.multiprocessing or Ray Train quotes of a rank."""
_THREAD = re.compile(rb"Exception in thread ([^\s:]+)")
_WORKER = re.compile(r"\bip=(?P<ip>[\w.:-]{1,60}), pid=(?P<pid>\d{1,9})\) world_rank=(?P<rank>\d{1,6})\b")
"""``- (ip=10.0.0.7, pid=4711) world_rank=3, local_rank=1, node_rank=0``, when Ray Train started a group of workers."""
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")

Before = Callable[[], bytes]
"""The bytes in front of a line, asked for when a time or what introduces a record is looked for there."""


class _Open:
    """A record that is still open, and where it began."""

    __slots__ = ("after", "known", "line", "quiet_from", "read_at", "record", "seen", "survived", "told")

    def __init__(self, record: Record, line: Line, after: Optional[float], read_at: Optional[float], seen: int) -> None:
        self.record = record
        self.line = line
        self.after = after
        self.read_at = read_at
        self.seen = seen
        self.known = -1
        """``seen`` when it was last asked for how long nothing had come."""
        self.quiet_from = 0.0
        self.told: Data = {}
        """Fields that the lines in front of a traceback give to its event."""
        self.survived = ""
        """``ignored`` or ``caught``, where these lines say so of the exception."""


class Reader:
    """Reads lines of one log, in order; :meth:`told` gives what they say."""

    def __init__(self, source: str, rank: Optional[int], pid: Optional[int], host: str, now: float) -> None:
        self.source = source
        self.rank = rank
        self.pid = pid
        self.host = host
        self.now = now
        self.read_at: Optional[float] = None
        """Time of events whose lines have none; set while following, None for what was there before."""
        self.counted = True
        """False once lines were left out: their numbers are unknown from there on."""
        self._events: List[LogEvent] = []
        self._open: Dict[LogWriter, _Open] = {}
        self._seen = 0
        self._workers: Dict[int, Dict[str, int]] = {}
        """Ranks of Ray's workers by process and host."""
        self._counts: Dict[Tuple[object, ...], int] = {}
        self._said: Dict[str, int] = {}
        """The last line of each event: a log that says the same a million times is not a million events."""

    @property
    def open(self) -> bool:
        """True while some record waits for its next line: then every line must be shown to the reader."""
        return bool(self._open)

    def told(self) -> List[LogEvent]:
        """The events since it was last asked."""
        events, self._events = self._events, []
        return events

    def end(self) -> None:
        """Wait for nothing any more."""
        while self._open:
            self._end(next(iter(self._open)))

    def rest(self, now: float, longest: float) -> None:
        """Wait no more for records of streams that have said nothing for so many seconds, while others write on."""
        for stream, waiting in list(self._open.items()):
            if waiting.known != waiting.seen:
                waiting.known, waiting.quiet_from = waiting.seen, now
            elif not 0 <= now - waiting.quiet_from <= longest:
                self._end(stream)

    def read(self, line: Line, mask: int, before: Before) -> None:
        """Take one line; ``mask`` has the bits of the words that it has."""
        self._seen += 1
        if mask & matching.NAMES:
            worker = _WORKER.search(line.text)
            if worker is not None and len(self._workers) < _REMEMBERED:
                self._workers.setdefault(int(worker.group("pid")), {})[worker.group("ip")] = int(worker.group("rank"))
        if self._open and self._continues(line):
            return
        if self._open and self._seen % 64 == 0:
            for stream in [s for s, waiting in self._open.items() if self._seen - waiting.seen > PATIENCE]:
                self._end(stream)
        if not mask:
            return
        of_machine = _DAEMONS.match(line.program) is not None or _KERNEL.match(line.text) is not None
        if mask & matching.OPENS and not of_machine:
            report = elastic_report.OPENER.match(line.text)
            record = elastic_report.ElasticReport(self.now, line.text) if report else tracebacks.opened(line.text)
            if record is not None:
                self._hold(line, record, before)
                return
        rule = None if line.stream in self._open else matching.going_on(line.text, mask)
        if rule is not None:
            self._hold(line, tracebacks.Continued(partial(matching.of_kind, rule.kind), line.text), before)
            return
        for event in matching.matches(line.text, mask, errors=not of_machine):
            if not (of_machine and event.kind == "python.exception"):
                after = self._after(line, before) if event.kind in _UNDATED else None
                self._event(line, event, line.text, after, self.read_at)

    def _continues(self, line: Line) -> bool:
        """Whether the line belongs to a record that is open."""
        stream = line.stream
        holder = self._open.get(stream)
        if holder is None and not line.labelled:
            for other, waiting in self._open.items():
                record = waiting.record
                # the second half of a wrapped line has no label
                wrapped = isinstance(record, tracebacks.Continued)
                logged = isinstance(record, tracebacks.Traceback) and record.takes_unlabelled(line.text)
                if waiting.seen == self._seen - 1 and (wrapped or logged):
                    stream, holder = other, waiting
        if holder is None:
            return False
        holder.seen = self._seen
        taken = holder.record.take(line)
        if holder.record.over:
            self._end(stream)
        return taken

    def _hold(self, line: Line, record: Record, before: Before) -> None:
        if line.stream in self._open:
            self._end(line.stream)
        opened = _Open(record, line, self._after(line, before), self.read_at, self._seen)
        spawned = _SPAWNED.search(b"\n".join(before().split(b"\n")[-3:]))
        if spawned is not None and line.stream.rank is None:
            opened.line = line._replace(stream=line.stream._replace(rank=int(spawned.group(1))))
        if isinstance(record, tracebacks.Traceback):
            above = self._above(line.stream, before())
            thread = _THREAD.search(above)
            if thread is not None:
                opened.told["thread"] = thread.group(1).decode("utf-8", "replace")
            if _LOGGED.search(above):
                opened.told["logged"] = True
            if b"Exception ignored " in above:
                opened.survived = "ignored"
            elif line.warned or b"WARNING" in above:  # what logs an exception at this level goes on
                opened.survived = "caught"
        self._open[line.stream] = opened

    def _above(self, stream: LogWriter, before: bytes) -> bytes:
        """The last line of this stream; where its lines have no label the last one of all."""
        lines = before.rstrip(b"\n").split(b"\n")[-8:]
        if stream.rank is None and stream.local_rank is None:
            return lines[-1][:400]
        for raw in reversed(lines):
            said = [line.stream for line in prefixes.records(raw[:400], 0, self.now)]
            if said and said[-1][:2] == stream[:2]:
                return raw[:400]
        return b""

    def _after(self, line: Line, before: Before) -> Optional[float]:
        """The last time that stands in front of a line that has none, in what was there before."""
        if line.at is not None or self.read_at is not None:
            return None
        return times.last(before().decode("utf-8", "replace"), self.now)

    def _end(self, stream: LogWriter) -> None:
        """Tell what a record says, and what its message says in the words of the rules."""
        holder = self._open.pop(stream)
        events, text, message = holder.record.end()
        for event in events:
            if event.kind == "python.exception":
                event.data.update(holder.told)
                if holder.survived == "ignored" or (holder.survived and not _UNCAUGHT.search(text)):
                    event.data["survived"] = True
            self._event(holder.line, event, text, holder.after, holder.read_at)
        if message and holder.survived != "ignored":
            kinds, shown = {event.kind for event in events}, prefixes.seen(message)
            for event in matching.matches(shown, matching.mask_of(shown), errors=False):
                if event.kind not in kinds:
                    raised = event._replace(data=dict(event.data, raised=True))
                    self._event(holder.line, raised, message, holder.after, holder.read_at)

    def _event(self, line: Line, parsed: ParsedEvent, text: str, after: Optional[float], read: Optional[float]) -> None:
        """Pass an event on with its time, its owner and its text, unless it was told before."""
        data = dict(parsed.data)
        if line.stream.local_rank is not None:
            data.setdefault("local_rank", line.stream.local_rank)
        at = parsed.at if parsed.at is not None else prefixes.moment(line, self.now)
        at = read if at is None else at
        if at is None and after is not None:
            data["after"] = after
        words = parsed.text or (line.text if "\n" in text or text in line.text else text)
        rank, host, pid = attribution.of_event(parsed, words, line.stream.rank, line.stream.host, line.pid)
        if words is text:  # what a message does not tell stands before the first line of its record
            rank, host, pid = attribution.of_event(parsed, line.text, rank, host, pid)
        known = self._workers.get(pid or 0, {})  # of workers of several hosts with one pid, only where the host tells
        if rank is None and known:
            rank = known.get(host) if host in known or len(known) != 1 else next(iter(known.values()))
        rank, pid = attribution.within_bounds(rank, MOST_RANK), attribution.within_bounds(pid, MOST_PID)
        event = LogEvent(
            parsed.kind, at, self.rank if rank is None else rank, host or self.host, self.pid if pid is None else pid,
            self.source, (parsed.line or line.number) if self.counted else 0, redact.event_text(parsed.text or text),
            {name: redact.sendable(value) for name, value in data.items()},
        )  # fmt: skip
        self._pass_on(event)

    def _pass_on(self, event: LogEvent) -> None:
        """Tell an event, with ``times`` in it where its like came before; not one that says exactly the same again."""
        if event.kind.startswith(_ALWAYS):
            self._events.append(event)
            return
        exact = _exactly(event)
        told = exact in self._said
        if len(self._said) >= _REMEMBERED and not told:
            self._said.clear()
            self._counts.clear()
        self._said[exact] = event.line
        if told:
            return
        shape = (event.kind, event.rank, event.host, event.pid, _NUMBERS.sub("#", event.text[:200]))
        times = self._counts[shape] = self._counts.get(shape, 0) + 1
        if times <= _KEPT or str(times).strip("0") == "1":
            self._events.append(event if times == 1 else event._replace(data=dict(event.data, times=times)))

    def last_said(self, event: LogEvent) -> int:
        """The last line on which exactly that was said, the event's own at least: the same is not told again."""
        return max(event.line, self._said.get(_exactly(event), 0))


def _exactly(event: LogEvent) -> str:
    data = sorted((name, repr(value)) for name, value in event.data.items() if name != "times")
    return repr((event.kind, event.rank, event.host, event.pid, event.at, data))
