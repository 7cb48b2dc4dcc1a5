"""Lines to events: which family reads a line, which record is still open, whose event it is."""

from __future__ import annotations

from typing import Callable, Dict, List, Optional, Tuple

from collectors.node import late_re as re
from collectors.node.logs import blocks, sendable
from collectors.node.logs.families import nodes
from collectors.node.logs.families.table import FAMILIES
from collectors.node.logs.lines import line, times, whose
from collectors.node.logs.naming import STEMS, Naming
from collectors.node.logs.records import exceptions, folded, unraisable
from collectors.node.logs.records.open_record import OpenRecord
from collectors.node.logs.records.outcome import OpenBlock, Outcome
from collectors.node.logs.repeats import Repeats
from collectors.node.logs.said import Data, Family, Said
from collectors.node.logs.scan import Scanner
from collectors.samples.logs import LogEvent
from collectors.samples.values import MOST_PID, MOST_RANK

PATIENCE = 3000
"""Lines of other streams after which an open record is taken to be over."""
OTHERS = 64
"""The same where what was in a log before has just been read to its end."""

_OPENS = 1 << len(FAMILIES)
_ALONE = 1 << (len(FAMILIES) + 1)
_RAISING = (b"Error:", b"Exception:", b"socket.gaierror:")

SCANNER = Scanner(
    [(stem, 1 << bit) for bit, family in enumerate(FAMILIES) for stem in family.stems]
    + [(stem, _OPENS) for stem in blocks.OPENERS]
    + [(stem, _ALONE) for stem in (*STEMS, *_RAISING)]
)
"""Finds the lines that the reader wants to see."""

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
"""Words of an announcement after which nothing goes on, at whatever level the traceback's own lines are."""
_UNCAUGHT = re.compile(
    r"\ATraceback \(most recent call last\):\s{1,8}File \"[^\"\r\n]{1,400}\", line \d{1,7},"
    r" in (?:<module>|_run_module_as_main|_bootstrap\w{0,8})\s"
)
"""A traceback from the outermost frame of a program, a thread or a child: nobody caught that exception."""
_NOT_LOGGING = re.compile(
    rb"Error executing job with overrides|[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \S+\.(?:cc|cpp|cu|h):\d"
)
"""Hydra's word, which logs an exception and ends; and a library's of C++, which logs none of Python's."""
_UNDATED = ("python.exception", "python.fatal", "process.signal")

Before = Callable[[], bytes]
"""The bytes in front of a line, asked for when a time is looked for there."""


class Reader:
    """Reads lines of one log, in order; what they say is in :attr:`events`."""

    def __init__(
        self,
        source: str,
        rank: Optional[int],
        pid: Optional[int],
        host: str,
        now: float,
    ) -> None:
        self.source = source
        self.rank = rank
        self.pid = pid
        self.host = host
        self.now = now
        self.read_at: Optional[float] = None
        self.counted = True
        """False once lines were left out: their numbers are unknown from there on."""
        self.events: List[LogEvent] = []
        self._open: Dict[line.Stream, OpenRecord] = {}
        self._seen = 0
        self._naming = Naming()
        self.repeats = Repeats()

    @property
    def open(self) -> bool:
        """True while some record waits for its next line: then every line must be shown to the reader."""
        return bool(self._open)

    def end(self) -> None:
        """Wait for nothing any more."""
        for stream in list(self._open):
            self._end(stream)

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

    def read(self, record: line.Line, mask: int, before: Before) -> None:
        """Take one line; ``mask`` has the bits of the literals that it has."""
        self._seen += 1
        if mask & _ALONE:
            self._naming.take(record)
        if self._open and self._continues(record):
            return
        if self._open and self._seen % 64 == 0:
            for stream in [s for s, waiting in self._open.items() if self._seen - waiting.seen > PATIENCE]:
                self._end(stream)
        block: Optional[OpenBlock] = None
        if mask & _OPENS and not nodes.DAEMONS.match(record.program):
            thread = self._naming.thread(record.stream)
            block = blocks.opened(record, self.now, self._naming.script, thread)
        if block is not None:
            self._hold(record, block, before)
        elif mask:
            self._families(record, mask, before)

    def _continues(self, record: line.Line) -> bool:
        """Whether the line belongs to a record that is open."""
        stream = record.stream
        holder = self._open.get(stream)
        if holder is None and not record.labelled:
            # the second half of a wrapped line has no label, nor have the frames of a traceback that a logger wrote
            for other, waiting in self._open.items():
                block = waiting.block
                wrapped = isinstance(block, folded.Wrapped)
                logged = isinstance(block, blocks.Exceptional) and block.goes_on(record.text)
                if waiting.seen == self._seen - 1 and (wrapped or logged):
                    stream, holder = other, waiting
        if holder is None:
            return False
        holder.seen = self._seen
        taken = holder.block.take(record)
        if holder.block.over:
            self._end(stream)
        return taken

    def _hold(self, record: line.Line, block: OpenBlock, before: Before) -> None:
        if record.stream in self._open:
            self._end(record.stream)
        announced = self._naming.announced(record.stream)
        begun = record if announced is None else record._replace(stream=record.stream._replace(rank=announced))
        after = None
        if record.at is None and self.read_at is None:
            after = times.last(before().decode("utf-8", "replace"), self.now)
        opened = self._open[record.stream] = OpenRecord(block, begun, after, self.read_at, self._seen)
        opened.ran_at = self._naming.host(record)
        if isinstance(block, blocks.Exceptional):
            above = line.above(record.stream, before().rstrip(b"\n").rpartition(b"\n")[2][:400], self.now)
            opened.logged = bool(_LOGGED.search(above)) and not _NOT_LOGGING.match(above)
            opened.mild = bool(_MILD.search(above)) or (begun.warned and not _ENDING.search(above))
            opened.ignored = unraisable.ignored(record, before(), self.now)

    def _families(self, record: line.Line, mask: int, before: Before) -> None:
        said_any = False
        for bit, family in enumerate(FAMILIES):
            if not mask >> bit & 1 or (family.hearsay and (said_any or nodes.is_machine(record.program, record.text))):
                continue
            if family.hearsay and mask & _ALONE and self._alone(record):
                return
            block, found = _asked(family, record.text, record.stream not in self._open)
            if block is not None:
                self._hold(record, block, before)
                said_any = True
            for told in found:
                after = None
                of_ray = told.data.get("launcher") == "ray"  # of what torch announces a traceback follows
                said = told._replace(rank=self._naming.announced(record.stream)) if of_ray else told
                if record.at is None and self.read_at is None and said.kind in _UNDATED:
                    after = times.last(before().decode("utf-8", "replace"), self.now)
                self._event(record, said, record.text, after, self.read_at)
                said_any = True
        if mask & _ALONE and said_any and "rror: " in record.text[:120]:
            self._alone(record)

    def _alone(self, record: line.Line) -> bool:
        """Whether the line is an exception's last one without its traceback; if so, it is told."""
        raised = _RAISED.match(record.text)
        if raised is not None:
            data: Data = dict(exceptions.headline(raised.group("line")), frames=[], launcher=False, cut=True)
            self._event(record, Said("python.exception", data), record.text, None, self.read_at)
        return raised is not None

    def _end(self, stream: line.Stream) -> None:
        holder = self._open.pop(stream)
        outcome = holder.block.end()
        for said in outcome.said:
            if holder.logged and said.kind == "log.error":
                continue  # frames that somebody logged, without an exception
            if holder.logged:
                said.data["logged"] = True
            caught = holder.ignored or (holder.mild and not _UNCAUGHT.search(outcome.text))
            if caught and said.kind == "python.exception":
                said.data["survived"] = True
            host = said.host or ("" if whose.of_ray(outcome.text) else holder.ran_at)
            self._event(holder.line, said._replace(host=host), outcome.text, holder.after, holder.read_at)
        if outcome.message and not holder.ignored:
            self._within(holder, outcome)
        for record in outcome.rest:
            self.read(record, SCANNER.mask(record.text.encode("utf-8", "replace")), bytes)

    def _within(self, holder: OpenRecord, outcome: Outcome) -> None:
        """What an exception's message says in the words of the families."""
        message = line.seen(outcome.message)
        mask = SCANNER.mask(message.encode("utf-8", "replace"))
        found: List[Said] = []
        for bit, family in enumerate(FAMILIES):
            if mask >> bit & 1 and family.name != outcome.family and not family.hearsay:
                found += _asked(family, message, may_open=False)[1]
        for said in found:
            raised = said._replace(data=dict(said.data, raised=True))
            self._event(holder.line, raised, outcome.message, holder.after, holder.read_at)

    def _event(self, record: line.Line, said: Said, text: str, after: Optional[float], read: Optional[float]) -> None:
        data = dict(said.data)
        if record.stream.local_rank is not None:
            data.setdefault("local_rank", record.stream.local_rank)
        at = said.at if said.at is not None else line.moment(record, self.now)
        at = read if at is None else at
        if at is None and after is not None:
            data["after"] = after
        fronted = "\n" in text or text in record.text
        words = said.text or (record.text if fronted else text)
        rank, host, pid = whose.of_event(said, words, record.stream.rank, record.stream.host, record.pid)
        if not fronted and not said.text:  # what its message does not tell stands before its first line
            rank, host, pid = whose.of_event(said, record.text, rank, host, pid)
        host = host or (whose.of_ray(text) if said.kind == "python.exception" else "")
        host = host or self._naming.placed(said.kind)
        rank = self._naming.worker(pid, host) if rank is None and pid is not None else rank
        rank, pid = sendable.number(rank, MOST_RANK), sendable.number(pid, MOST_PID)
        event = LogEvent(
            said.kind,
            at,
            rank if rank is not None else self.rank,
            host or self.host,
            pid if pid is not None else self.pid,
            self.source,
            (said.line or record.number) if self.counted else 0,
            sendable.text(said.text or text),
            {name: sendable.value(value) for name, value in data.items()},
        )
        passed = self.repeats.pass_on(event)
        if passed is not None:
            self.events.append(passed)


Told = Tuple[Optional[OpenBlock], List[Said]]


def _asked(family: Family, text: str, may_open: bool) -> Told:
    """What a family makes of a text: a record that goes on in the next lines, or what it says."""
    listed, unfinished = family.listed, family.unfinished
    if may_open and listed is not None and listed[0].search(text):
        return folded.Listed(family, listed[1], text), []
    if may_open and unfinished is not None and unfinished.search(text):
        return folded.Wrapped(family, text), []
    return None, list(family.read(text))
