"""Turns lines into events: applies the rules, collects multi-line records, and assigns each event to its process."""

from __future__ import annotations

import re
from typing import Callable, Dict, List, Optional, Tuple

from collectors.node import redact
from collectors.node.logs import elastic_report, matching, prefixes, times
from collectors.node.logs.prefixes import LabelledLine, LogWriter
from collectors.node.logs.records import TRACEBACK, Continued, Record, Traceback
from collectors.samples import MOST_PID, MOST_RANK
from collectors.samples.logs import LogEvent

PATIENCE = 3000
"""Lines of other streams after which an open record is closed."""
_KEPT, _REMEMBERED = 8, 4096
"""Events of one shape that are passed on (then only the 10th, 100th, 1000th …); workers and events remembered."""
_ALWAYS = ("kernel.", "elastic.failure", "nccl.init", "nccl.end", "engine.", "job.started")
"""Kinds whose events are all passed on, even if they differ only in numbers."""
_MACHINE = (
    r"kernel|kube|k3s|containerd|dockerd|crio|systemd|sshd|cron|slurm\w*d\b|nv-hostengine|nvidia-|dcgm|node_exporter"
    r"|\[ {0,5}\d{1,7}\.\d{6}\]"
)
"""System programs by their journal name, and the kernel's timestamp: their errors are not failures of a rank."""
_UNDATED = ("python.exception", "python.fatal", "process.signal")
"""Kinds that get the last time printed before them as a lower bound if their own lines have no time."""
_SPAWNED = (
    rb"(?m)(?:-- Process|^\[Rank) (\d{1,6}) (?:terminated with(?: the following error:|\s{0,4}$)|Error Snippet\]:)"
)
"""Introduction of a rank's error that torch.multiprocessing or Ray Train quotes."""
_WORKER = r"\bip=(?P<ip>[\w.:-]{1,60}), pid=(?P<pid>\d{1,9})\) world_rank=(?P<rank>\d{1,6})\b"
"""``- (ip=10.0.0.7, pid=4711) world_rank=3, local_rank=1, node_rank=0``, which Ray Train prints for new workers."""
_FRONT = 200
"""Characters at the beginning of a line that are searched for NCCL's prefix."""
_NCCL = r"(?!\d\d:\d\d:\d\d\b)(?P<host>[^\s:\[\]()\"']{1,64}):(?P<pid>\d{1,10}):\d{1,10} \[\d+\] "
"""NCCL's prefix ``host:pid:tid [cudaDev]``; a time of day looks similar."""
_NUMBERS = r"0x[0-9a-f]+|\d+"

Before = Callable[[], List[bytes]]
"""Returns the lines before a line; called only when a time or a record's introduction is searched in them."""


class Reader:
    """Reads lines of one log, in order; :meth:`events` returns their events."""

    def __init__(self, source: str, rank: Optional[int], pid: Optional[int], host: str, now: float) -> None:
        self.source = source
        self.rank = rank
        self.pid = pid
        self.host = host
        self.now = self.clock = now
        """``clock`` is the time at which the current lines were written, as estimated by the caller."""
        self.live = False
        """True while the log is read as it grows: events without a time in their lines then get ``clock``."""
        self.counted = True
        """False once lines were left out: line numbers are then unknown."""
        self._events: List[LogEvent] = []
        self._open: Dict[LogWriter, Record] = {}
        self._seen = 0
        self._workers: Dict[Tuple[str, int], Optional[int]] = {}
        """Ranks of Ray's workers by (host, pid), and by ("", pid): None there if hosts disagree on the rank."""
        self._counts: Dict[Tuple[object, ...], int] = {}
        """Number of events of each shape (text without numbers)."""
        self._said: Dict[str, int] = {}
        """Last line number of each distinct event: repetitions give no further events."""

    @property
    def open(self) -> bool:
        """True while a record may continue: the reader must then get every line."""
        return bool(self._open)

    def events(self) -> List[LogEvent]:
        """Events since the last call."""
        found, self._events = self._events, []
        return found

    def rest(self, before: float = float("inf")) -> None:
        """Close the records of streams without a line since ``before``."""
        for stream in [stream for stream, record in self._open.items() if record.touched < before]:
            self._end(stream)

    def read(self, line: LabelledLine, mask: int, before: Before) -> None:
        """Take one line; ``mask`` has the bits of the line's words."""
        self._seen += 1
        named = mask & matching.NAMES and len(self._workers) < _REMEMBERED
        worker = re.search(_WORKER, line.text) if named else None
        if worker is not None:
            host, pid, rank = worker.group("ip"), int(worker.group("pid")), int(worker.group("rank"))
            self._workers["", pid] = rank if self._workers.get(("", pid), rank) == rank else None
            self._workers[host, pid] = rank
        if self._open and self._continues(line):
            return
        if self._open and self._seen % 64 == 0:
            for stream in [s for s, record in self._open.items() if self._seen - record.seen > PATIENCE]:
                self._end(stream)
        if not mask:
            return
        of_machine = re.match(_MACHINE, line.program or line.text) is not None
        record = None if of_machine else self._opened(line, mask)
        if record is not None:
            self._hold(record, before())
            return
        for event in matching.matches(line.text, mask, errors=not of_machine):
            dated = self._dated(line)
            undated = dated.at is None and event.kind in _UNDATED
            self._emit(dated, event, self._last_time(before()) if undated else None)

    def last_said(self, event: LogEvent) -> int:
        """Number of the last line with exactly this event, at least the event's own line."""
        return max(event.line, self._said.get(_exactly(event), 0))

    def _opened(self, line: LabelledLine, mask: int) -> Optional[Record]:
        """The multi-line record that begins with this line; None if there is none."""
        if mask & matching.OPENS:
            if re.match(elastic_report.OPENER, line.text):
                return elastic_report.ElasticReport(line, self.now)
            if re.search(TRACEBACK, line.text):
                return Traceback(line)
        rule = None if line.stream in self._open else matching.going_on(line.text, mask)
        return None if rule is None else Continued(line, rule.kind)

    def _hold(self, record: Record, before: List[bytes]) -> None:
        """Keep a record open, with the time, rank and introduction from the lines before it."""
        stream = record.line.stream
        if stream in self._open:
            self._end(stream)
        record.line = self._dated(record.line)
        record.seen, record.touched = self._seen, self.clock
        record.after = self._last_time(before) if record.line.at is None else None
        last = before[-1][:400] if before else b""
        writers = [line.stream for line in prefixes.records(last, 0, self.now)]
        record.above = last if writers[-1][:2] == stream[:2] else b""
        spawned = re.search(_SPAWNED, b"\n".join(before[-3:]))
        if spawned is not None and stream.rank is None:
            record.line = record.line._replace(stream=stream._replace(rank=int(spawned.group(1))))
        self._open[stream] = record

    def _continues(self, line: LabelledLine) -> bool:
        """Whether the line belongs to an open record."""
        stream = line.stream
        record = self._open.get(stream)
        if record is None and not line.labelled:  # the second half of a wrapped line has no label
            for other, waiting in self._open.items():
                if waiting.seen == self._seen - 1 and isinstance(waiting, Continued):
                    stream, record = other, waiting
        if record is None:
            return False
        record.seen, record.touched = self._seen, self.clock
        taken = record.take(line)
        if record.over:
            self._end(stream)
        return taken

    def _dated(self, line: LabelledLine) -> LabelledLine:
        """The line with its time: as printed, else (while the log is live) ``clock``."""
        at = prefixes.moment(line, self.now)
        return line._replace(at=self.clock if at is None and self.live else at)

    def _last_time(self, before: List[bytes]) -> Optional[float]:
        """The last time printed in the lines before a line."""
        return times.last(b"\n".join(before).decode("utf-8", "replace"), self.now)

    def _end(self, stream: LogWriter) -> None:
        """Close a record: pass on its events, and those that the rules find in its message."""
        record = self._open.pop(stream)
        events = record.end()
        for event in events:
            self._emit(record.line, event, record.after)
        kinds, message = {event.kind for event in events}, record.message
        for event in matching.quoted(message) if message else ():
            if event.kind not in kinds:
                self._emit(record.line, event, record.after)

    def _emit(self, line: LabelledLine, parsed: LogEvent, after: Optional[float]) -> None:
        """Pass an event on with its time, owner and text, unless it is a repetition."""
        data = dict(parsed.data)
        if line.stream.local_rank is not None:
            data.setdefault("local_rank", line.stream.local_rank)
        at = line.at if parsed.at is None else parsed.at
        if at is None and after is not None:
            data["after"] = after
        rank = line.stream.rank if parsed.rank is None else parsed.rank
        pid = line.stream.pid if parsed.pid is None else parsed.pid
        host, front = parsed.host or line.stream.host, re.search(_NCCL, line.text.partition("\n")[0][:_FRONT])
        if front is not None:
            host, pid = host or front.group("host"), int(front.group("pid")) if pid is None else pid
        if rank is None and pid is not None and self._workers:
            rank = self._workers.get((host, pid), self._workers.get(("", pid)))
        event = LogEvent(
            parsed.kind, at, self.rank if rank is None or not -1 <= rank <= MOST_RANK else rank, host or self.host,
            self.pid if pid is None or not 0 <= pid <= MOST_PID else pid, self.source,
            (parsed.line or line.number) if self.counted else 0, redact.event_text(parsed.text or line.text),
            {name: redact.sendable(value) for name, value in data.items()},
        )  # fmt: skip
        if event.kind.startswith(_ALWAYS):
            self._events.append(event)
            return
        exact = _exactly(event)
        again = exact in self._said
        if len(self._said) >= _REMEMBERED and not again:
            self._said.clear()
            self._counts.clear()
        self._said[exact] = event.line
        if not again:
            shape = (event.kind, event.rank, event.host, event.pid, re.sub(_NUMBERS, "#", event.text[:200]))
            count = self._counts[shape] = self._counts.get(shape, 0) + 1
            if count <= _KEPT or str(count).strip("0") == "1":
                self._events.append(event)


def _exactly(event: LogEvent) -> str:
    data = sorted((name, repr(value)) for name, value in event.data.items())
    return repr((event.kind, event.rank, event.host, event.pid, event.at, data))
