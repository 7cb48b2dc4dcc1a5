"""Lines to events: which rule reads a line, which record is still open, whose event it is."""

from __future__ import annotations

from typing import Callable, Dict, List, Optional

from collectors.node import late_re as re
from collectors.node import redact
from collectors.node.logs import attribution, blocks, exceptions, prefixes, times, tracebacks
from collectors.node.logs.blocks import Block, Outcome
from collectors.node.logs.context import LogContext, OpenRecord
from collectors.node.logs.elastic_report import status_event
from collectors.node.logs.matching import ALONE, MASKS, OPENS, ROWS, SCANNER, continued, matches
from collectors.node.logs.prefixes import Line, LogWriter
from collectors.node.logs.repeats import Repeats
from collectors.node.logs.rule import Data, ParsedEvent
from collectors.node.logs.rules import FALLBACK
from collectors.samples.logs import LogEvent
from collectors.samples.values import MOST_PID, MOST_RANK, Value

TEXT = 4000
"""Characters of the text of an event."""
PATIENCE = 3000
"""Lines of other streams after which an open record is taken to be over."""
OTHERS = 64
"""The same where what was in a log before has just been read to its end."""


_RAISED = re.compile(
    r"^(?:\[?(?:ERROR|[Ee]rror|CRITICAL|FATAL|E)\]?[ :-]{0,8}){0,2}"
    r"(?P<line>(?:socket\.gaierror|[A-Za-z_][\w.]*(?:Error|Exception)): (?!module compiled against )\S.*)$"
)
_LOGGED = re.compile(
    rb"\b(?:Stack|defined at) \(most recent"
    rb"|\b(?:ERROR|WARN(?:ING)?|CRITICAL|EXCEPTION|Error|Warning|error|warning)\b[\]|: -]"
)
_MILD = re.compile(
    rb"\bWARN(?:ING)?\b(?![^\r\n]{0,300}(?:abort|exit|crash|terminat|fatal|died|fail))"
    rb"|\b[Rr]etry(?:ing)? (?:attempt|in)\b|Exception while exporting "
)
"""At the level of warnings, before another try, or of what telemetry loses: whoever logs an exception so goes on."""
_ENDING = re.compile(rb"(?i)abort|exit|crash|terminat|fatal|died")
_UNCAUGHT = re.compile(
    r"\ATraceback \(most recent call last\):\s{1,8}File \"[^\"\r\n]{1,400}\", line \d{1,7},"
    r" in (?:<module>|_run_module_as_main|_bootstrap\w{0,8})\s"
)
"""A traceback from the outermost frame of a program, a thread or a child: nobody caught that exception."""
_NOT_LOGGING = re.compile(
    rb"Error executing job with overrides|[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \S+\.(?:cc|cpp):\d"
)
"""Hydra's word, which logs an exception and ends; and a library's of C++, which logs none of Python's."""
_IGNORED = re.compile(r"Exception ignored (?:in|on|while)\b")
_DAEMONS = re.compile(
    r"kernel|kube|k3s|containerd|dockerd|crio|systemd|sshd|cron|slurm\w*d\b|nv-hostengine|nvidia-|dcgm|node_exporter"
    r"|NetworkManager|dbus|snapd|rsyslogd|sudo|su\Z|automount|sssd"
)
"""Programs of a machine, by the name that its journal gives them: an error of theirs is no end of a rank."""
_UNDATED = ("python.exception", "python.fatal", "process.signal")
_KERNEL = re.compile(r"\[ {0,5}\d{1,7}\.\d{6}\](?:\[ {0,6}[TC]\d{1,8}\])? ")

Before = Callable[[], bytes]
"""The bytes in front of a line, asked for when a time is looked for there."""


class Reader:
    """Reads lines of one log, in order; what they say is in :attr:`events`."""

    def __init__(self, source: str, rank: Optional[int], pid: Optional[int], host: str, now: float) -> None:
        self.source = source
        self.rank = rank
        self.pid = pid
        self.host = host
        self.now = now
        self.read_at: Optional[float] = None
        self.counted = True
        """False once lines were left out: their numbers are unknown from there on."""
        self.events: List[LogEvent] = []
        self._open: Dict[LogWriter, OpenRecord] = {}
        self._seen = 0
        self._context = LogContext()
        self.repeats = Repeats()

    @property
    def open(self) -> bool:
        """True while some record waits for its next line: then every line must be shown to the reader."""
        return bool(self._open)

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

    def read(self, record: Line, mask: int, before: Before, may_open: bool = True) -> None:
        """Take one line; ``mask`` has the bits of the literals that it has."""
        self._seen += 1
        if mask & ALONE:
            self._context.take(record)
        if self._open and self._continues(record):
            return
        if self._open and self._seen % 64 == 0:
            for stream in [s for s, waiting in self._open.items() if self._seen - waiting.seen > PATIENCE]:
                self._end(stream)
        block = None
        if mask & OPENS and may_open and not _DAEMONS.match(record.program):
            block = blocks.opened(record, self.now, self._context.script, self._context.thread(record.stream))
        if block is not None:
            self._hold(record, block, before)
        elif mask:
            self._rules(record, mask, before, may_open)

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
        announced = self._context.announced(record.stream)
        begun = record if announced is None else record._replace(stream=record.stream._replace(rank=announced))
        after = None
        if record.at is None and self.read_at is None:
            after = times.last(before().decode("utf-8", "replace"), self.now)
        opened = self._open[record.stream] = OpenRecord(block, begun, after, self.read_at, self._seen)
        opened.ran_at = self._context.host(record)
        if isinstance(block, blocks.Traceback):
            above = self._above(record.stream, before().rstrip(b"\n").rpartition(b"\n")[2][:400])
            opened.logged = bool(_LOGGED.search(above)) and not _NOT_LOGGING.match(above)
            opened.mild = bool(_MILD.search(above)) or (begun.warned and not _ENDING.search(above))
            opened.ignored = self._is_ignored(record, before())

    def _above(self, stream: LogWriter, raw: bytes) -> bytes:
        """The line above a record of this stream; nothing where another rank's label stands in front of it, or none."""
        if stream.rank is None and stream.local_rank is None:
            return raw
        said = [record.stream for record in prefixes.records(raw, 0, self.now)]
        return raw if said and said[-1][:2] == stream[:2] else b""

    def _is_ignored(self, record: Line, before: bytes) -> bool:
        """Whether Python's word that it ignores the exception stands above the traceback that the record begins.

        Lines of other streams may stand between.
        """
        if b"Exception ignored " not in before:
            return False
        whole = tracebacks.OPENER.search(record.text) is not None
        for raw in reversed(before.split(b"\n")):
            own = [
                said for said in prefixes.records(raw[:400], 0, self.now)
                if said.stream == record.stream and said.text.strip()
            ]  # fmt: skip
            if any(_IGNORED.match(said.text) for said in own):
                return True
            if own and whole:
                return False
        return False

    def _rules(self, record: Line, mask: int, before: Before, may_open: bool) -> None:
        """Ask the rules, subject by subject; those of the last one only where no other says anything."""
        told = status_event(record.text) if "worker.status.FAILED" in record.text else None
        found = [] if told is None else [told]
        for subject, rows in ROWS.items():
            if not mask & MASKS[subject] or (subject == FALLBACK and (found or self._of_machine(record))):
                continue
            if subject == FALLBACK and mask & ALONE and self._alone(record):
                return
            held = None
            if may_open and record.stream not in self._open:
                held = continued(subject, rows, record, mask)
            if held is not None:
                self._hold(record, held, before)
                return
            found += matches(rows, record.text, mask)
        for event in found:
            after = None
            if event.data.get("launcher") == "ray":  # of what torch announces a traceback follows
                announced = self._context.announced(record.stream)
                event = event if announced is None else event._replace(rank=announced)  # noqa: PLW2901 - the same event
            if record.at is None and self.read_at is None and event.kind in _UNDATED:
                after = times.last(before().decode("utf-8", "replace"), self.now)
            self._event(record, event, record.text, after, self.read_at)
        if mask & ALONE and found and "rror: " in record.text[:120]:
            self._alone(record)

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
            caught = holder.ignored or (holder.mild and not _UNCAUGHT.search(outcome.text))
            if caught and event.kind == "python.exception":
                event.data["survived"] = True
            host = event.host or ("" if attribution.of_ray(outcome.text) else holder.ran_at)
            self._event(holder.line, event._replace(host=host), outcome.text, holder.after, holder.read_at)
        if outcome.message and not holder.ignored:
            self._within(holder, outcome)
        for record in outcome.rest:
            mask = SCANNER.mask(record.text.encode("utf-8", "replace"))
            self.read(record, mask, bytes, may_open=record.number != holder.line.number)

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
        host = host or (attribution.of_ray(text) if parsed.kind == "python.exception" else "")
        rank = self._context.worker(pid, host) if rank is None and pid is not None else rank
        rank, pid = _within_bounds(rank, MOST_RANK), _within_bounds(pid, MOST_PID)
        event = LogEvent(
            parsed.kind,
            at,
            rank if rank is not None else self.rank,
            host or self.host,
            pid if pid is not None else self.pid,
            self.source,
            (parsed.line or record.number) if self.counted else 0,
            _redacted(parsed.text or text),
            {name: _sendable(value) for name, value in data.items()},
        )
        passed = self.repeats.pass_on(event)
        if passed is not None:
            self.events.append(passed)


def _sendable(value: Value) -> Value:
    """A value of an event as it may leave the node: its texts without secrets, and bounded."""
    if isinstance(value, list):
        return [_redacted(item) if isinstance(item, str) else item for item in value]
    return _redacted(value) if isinstance(value, str) else value


def _redacted(text: str) -> str:
    return redact.shapes(text[: 4 * TEXT])[:TEXT]  # redacted before it is cut: half a token is none by its shape


def _within_bounds(number: Optional[int], most: int) -> Optional[int]:
    """The number of a rank or a process; what is beyond the largest there can be is none."""
    return number if number is not None and -1 <= number <= most else None
