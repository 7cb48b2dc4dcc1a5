"""Lines to events: which rule reads a line, which record is still open, whose event it is."""

from __future__ import annotations

import re
from typing import Callable, Dict, List, Optional

from collectors.node import redact
from collectors.node.logs import attribution, blocks, exceptions, prefixes, times
from collectors.node.logs.blocks import Block, OpenRecord, Outcome
from collectors.node.logs.elastic_report import SCRIPT
from collectors.node.logs.matching import ALONE, MASKS, OPENS, ROWS, SCANNER, matches
from collectors.node.logs.prefixes import Line, LogWriter
from collectors.node.logs.repeats import Repeats
from collectors.node.logs.rule import Data, ParsedEvent
from collectors.node.logs.rules import FALLBACK
from collectors.samples.logs import LogEvent
from collectors.samples.values import MOST_PID, MOST_RANK

PATIENCE, OTHERS = 3000, 64
"""Lines of other streams after which an open record is over; the same once an old log was read to its end."""

_RAISED = re.compile(
    r"^(?:\[?(?:ERROR|[Ee]rror|CRITICAL|FATAL|E)\]?[ :-]{0,8}){0,2}"
    r"(?P<line>(?:socket\.gaierror|[A-Za-z_][\w.]*(?:Error|Exception)): (?!module compiled against )\S.*)$"
)
_LOGGED = re.compile(
    rb"\b(?:Stack|defined at) \(most recent"
    rb"|\b(?:ERROR|WARN(?:ING)?|CRITICAL|EXCEPTION|Error(?! executing job with overrides)|Warning|error|warning)\b"
    rb"[\]|: -]"
)
"""A logger's line; Hydra's, which logs an exception and ends, is none."""
_MILD = re.compile(
    rb"\bWARN(?:ING)?\b(?![^\r\n]{0,300}(?:abort|exit|crash|terminat|fatal|died|fail))"
    rb"|\b[Rr]etry(?:ing)? (?:attempt|in)\b"
)
"""At the level of warnings, or before another try: what logs an exception so goes on."""
_ENDING = re.compile(rb"(?i)abort|exit|crash|terminat|fatal|died")
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
_SPAWNED = re.compile(
    r"(?:-- Process|^\[Rank) (\d{1,6}) (?:terminated with(?: the following error:|\s{0,4}$)|Error Snippet\]:)"
)
_THREAD = re.compile(r"Exception in thread ([^\s:]+)")
_WORKER = re.compile(r"\bip=(?P<ip>[\w.:-]{1,60}), pid=(?P<pid>\d{1,9})\) world_rank=(?P<rank>\d{1,6})\b")
"""``- (ip=10.0.0.7, pid=4711) world_rank=3, local_rank=1, node_rank=0``, when Ray Train started a group of workers."""
_NAMED = 1 << 16
"""Names of a kind that are kept."""

Before = Callable[[], bytes]
"""The bytes in front of a line, asked for when a time is looked for there."""


class Reader:
    """Reads lines of one log, in order; :meth:`told` gives what they say."""

    def __init__(self, source: str, rank: Optional[int], pid: Optional[int], host: str, now: float) -> None:
        self.source = source
        self.rank = rank
        self.pid = pid
        self.host = host
        self.now = now
        self.read_at: Optional[float] = None
        self.counted = True
        """False once lines were left out: their numbers are unknown from there on."""
        self.repeats = Repeats()
        self._events: List[LogEvent] = []
        self._open: Dict[LogWriter, OpenRecord] = {}
        self._seen = 0
        self._script = ""
        """Of the report of torchelastic that is under way."""
        self._announced: Dict[LogWriter, int] = {}
        """The rank that a stream said the next record is about."""
        self._threads: Dict[LogWriter, str] = {}
        self._workers: Dict[int, Dict[str, int]] = {}
        """Ranks of Ray's workers by process and host."""

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
        """Wait no more for records of streams that have said nothing for so many seconds, while others write on.

        When what was there before was written nobody knows: there some lines of others are enough.
        """
        for stream, waiting in list(self._open.items()):
            if self.read_at is None and self._seen - waiting.seen > OTHERS:
                self._end(stream)
            elif waiting.known != waiting.seen:
                waiting.known, waiting.quiet_from = waiting.seen, now
            elif not 0 <= now - waiting.quiet_from <= longest:
                self._end(stream)

    def read(self, record: Line, mask: int, before: Before) -> None:
        """Take one line; ``mask`` has the bits of the literals that it has."""
        self._seen += 1
        if mask & ALONE:
            self._names(record)
        if self._open and self._continues(record):
            return
        if self._open and self._seen % 64 == 0:
            for stream in [s for s, waiting in self._open.items() if self._seen - waiting.seen > PATIENCE]:
                self._end(stream)
        block = None
        if mask & OPENS and not _DAEMONS.match(record.program):
            block = blocks.opened(record, self.now, self._script, self._threads.pop(record.stream, ""))
        if block is not None:
            self._hold(record, block, before)
        elif mask:
            self._rules(record, mask, before)

    def _names(self, record: Line) -> None:
        """Remember what a line says that the next ones are about."""
        text = record.text
        spawned, thread, script, worker = (each.search(text) for each in (_SPAWNED, _THREAD, SCRIPT, _WORKER))
        if spawned is not None and len(self._announced) < _NAMED:
            self._announced[record.stream] = int(spawned.group(1))
        if thread is not None and len(self._threads) < _NAMED:
            self._threads[record.stream] = thread.group(1)
        if script is not None:
            self._script = script.group("script")
        if worker is not None and len(self._workers) < _NAMED:
            self._workers.setdefault(int(worker.group("pid")), {})[worker.group("ip")] = int(worker.group("rank"))

    def _rank_announced(self, stream: LogWriter) -> Optional[int]:
        """The rank that the next record is about; None where its lines bear one."""
        return self._announced.pop(stream, None) if stream.rank is None else None

    def _continues(self, record: Line) -> bool:
        """Whether the line belongs to a record that is open."""
        stream = record.stream
        holder = self._open.get(stream)
        if holder is None and not record.labelled:
            # the second half of a wrapped line has no label, nor have the frames of a traceback that a logger wrote
            for other, waiting in self._open.items():
                block = waiting.block
                wrapped = isinstance(block, blocks.Continued) and not block.rule.item
                logged = isinstance(block, blocks.Traceback) and block.goes_on(record.text)
                if waiting.seen == self._seen - 1 and (wrapped or logged):
                    stream, holder = other, waiting
        if holder is None:
            return False
        holder.seen = self._seen
        taken = holder.block.take(record)
        if holder.block.over:
            self._end(stream)
        return taken

    def _hold(self, record: Line, block: Block, before: Before) -> None:
        if record.stream in self._open:
            self._end(record.stream)
        announced = self._rank_announced(record.stream)
        begun = record if announced is None else record._replace(stream=record.stream._replace(rank=announced))
        opened = self._open[record.stream] = OpenRecord(
            block, begun, self._after(record, before), self.read_at, self._seen
        )
        if isinstance(block, blocks.Traceback):
            above = self._above(record.stream, before())
            opened.logged = bool(_LOGGED.search(above))
            opened.caught = bool(_MILD.search(above)) or (begun.warned and not _ENDING.search(above))
            opened.ignored = b"Exception ignored " in above

    def _above(self, stream: LogWriter, before: bytes) -> bytes:
        """The last line of this stream; where its lines have no label the last one of all."""
        lines = before.rstrip(b"\n").split(b"\n")[-8:]
        if stream.rank is None and stream.local_rank is None:
            return lines[-1][:400]
        for raw in reversed(lines):
            said = [record.stream for record in prefixes.records(raw[:400], 0, self.now)]
            if said and said[-1][:2] == stream[:2]:
                return raw[:400]
        return b""

    def _after(self, record: Line, before: Before) -> Optional[float]:
        """The last time that stands in front of a line that has none, in what was there before."""
        if record.at is not None or self.read_at is not None:
            return None
        return times.last(before().decode("utf-8", "replace"), self.now)

    def _rules(self, record: Line, mask: int, before: Before) -> None:
        """Ask the rules, subject by subject; those of the last one only where no other says anything."""
        found: List[ParsedEvent] = []
        for subject, rows in ROWS.items():
            if not mask & MASKS[subject] or (subject == FALLBACK and (found or self._of_machine(record))):
                continue
            if subject == FALLBACK and mask & ALONE and self._alone(record):
                return
            begun = None if record.stream in self._open else self._continued(subject, record, mask)
            if begun is not None:
                self._hold(record, begun, before)
                return
            found += matches(rows, record.text, mask)
        for event in found:
            after = self._after(record, before) if event.kind in _UNDATED else None
            rank = self._rank_announced(record.stream) if event.data.get("launcher") == "ray" else None
            self._event(record, event if rank is None else event._replace(rank=rank), record.text, after, self.read_at)
        if mask & ALONE and found and "rror: " in record.text[:120]:
            self._alone(record)

    def _continued(self, subject: str, record: Line, mask: int) -> Optional[Block]:
        """The record that a line begins and that goes on in the next ones, by the rules of a subject."""
        rows = ROWS[subject]
        for bit, rule, _, begins in rows:
            if mask & bit and begins is not None and begins.search(record.text):
                return blocks.Continued(rule, subject, lambda text: matches(rows, text), record)
        return None

    def _of_machine(self, record: Line) -> bool:
        """Whether a daemon of the machine speaks, by its journal, or the kernel: their errors are no rank's end."""
        return _DAEMONS.match(record.program) is not None or _KERNEL.match(record.text) is not None

    def _alone(self, record: Line) -> bool:
        """Whether the line is an exception's last one without its traceback; if so, it is told."""
        raised = _RAISED.match(record.text)
        if raised is not None:
            data: Data = dict(exceptions.headline(raised.group("line")), frames=[], launcher=False, cut=True)
            self._event(record, ParsedEvent("python.exception", data), record.text, None, self.read_at)
        return raised is not None

    def _end(self, stream: LogWriter) -> None:
        holder = self._open.pop(stream)
        outcome = holder.block.end()
        for event in outcome.events:
            if holder.logged:
                event.data["logged"] = True
            survived = holder.ignored or (holder.caught and not _UNCAUGHT.search(outcome.text))
            if survived and event.kind == "python.exception":
                event.data["survived"] = True
            self._event(holder.line, event, outcome.text, holder.after, holder.read_at)
        if outcome.message and not holder.ignored:
            self._within(holder, outcome)

    def _within(self, holder: OpenRecord, outcome: Outcome) -> None:
        """What an exception's message says in the words of the rules."""
        message = prefixes.seen(outcome.message)
        mask = SCANNER.mask(message.encode("utf-8", "replace"))
        for subject, rows in ROWS.items():
            if mask & MASKS[subject] and subject not in (FALLBACK, outcome.subject):
                for event in matches(rows, message, mask):
                    raised = event._replace(data=dict(event.data, raised=True))
                    self._event(holder.line, raised, outcome.message, holder.after, holder.read_at)

    def _event(
        self, record: Line, parsed: ParsedEvent, text: str, after: Optional[float], read: Optional[float]
    ) -> None:
        data = dict(parsed.data)
        if record.stream.local_rank is not None:
            data.setdefault("local_rank", record.stream.local_rank)
        at = parsed.at if parsed.at is not None else prefixes.moment(record, self.now)
        at = read if at is None else at
        if at is None and after is not None:
            data["after"] = after
        fronted = "\n" in text or text in record.text
        words = parsed.text or (record.text if fronted else text)
        rank, host, pid = attribution.of_event(parsed, words, record.stream.rank, record.stream.host, record.pid)
        if not fronted and not parsed.text:  # what its message does not tell stands before its first line
            rank, host, pid = attribution.of_event(parsed, record.text, rank, host, pid)
        if rank is None and pid is not None:
            rank = self._worker(pid, host)
        rank, pid = attribution.within_bounds(rank, MOST_RANK), attribution.within_bounds(pid, MOST_PID)
        event = LogEvent(
            parsed.kind,
            at,
            rank if rank is not None else self.rank,
            host or self.host,
            pid if pid is not None else self.pid,
            self.source,
            (parsed.line or record.number) if self.counted else 0,
            redact.event_text(parsed.text or text),
            {name: redact.sendable(value) for name, value in data.items()},
        )
        passed = self.repeats.pass_on(event)
        if passed is not None:
            self._events.append(passed)

    def _worker(self, pid: int, host: str) -> Optional[int]:
        """The rank of a worker of Ray's; of those of several hosts with one pid, only where the host tells."""
        known = self._workers.get(pid, {})
        return known.get(host) if host in known or len(known) != 1 else next(iter(known.values()))
