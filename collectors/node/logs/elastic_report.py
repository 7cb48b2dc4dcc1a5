"""The record that torchrun prints for a ChildFailedError: one event per entry.

"Root Cause" is marked as what it is: the first failure that *this agent* saw.
"""

from __future__ import annotations

import re
from typing import Dict, List

from collectors.node.logs import exceptions, times, tracebacks
from collectors.node.logs.prefixes import Line
from collectors.node.logs.records import Outcome, Record
from collectors.node.logs.rule import Data, ParsedEvent, number, signal_name, signal_of_exit

OPENER = re.compile(r"^\s*(?:Failures:|Other Failures:|Root Cause(?: \(first observed failure\))?:)\s*$")
_ENTRY = re.compile(r"^\s*(?:\[\d+\]:|={10,}|\*{10,}|-{10,})\s*$")
_FIELD = re.compile(r"^\s{0,4}(time|host|rank|exitcode|error_file|traceback|msg)\s*:\s?(.*)$")
_RANK = re.compile(r"(\d{1,9})(?: \(local_rank: (\d{1,9})\))?")
_EXIT = re.compile(r"(-?\d+) \(pid: (\d+)\)(?:\s+\((SIG\w+)\))?")
_NO_DETAIL = re.compile(r"To enable traceback see|Signal \d+ \(SIG\w+\) received|Process failed with exitcode")
_QUOTES = ("traceback", "msg")
"""Fields that quote what the rank had raised, over several lines."""
_STRANGERS, _LINES = 2, 60
"""Lines of others within a report; lines of one entry that its event carries."""


class ElasticReport(Record):
    """Takes the lines of one report."""

    def __init__(self, line: Line, now: float) -> None:
        super().__init__(line)
        self._now = now
        self._root = "Root Cause" in line.text
        self._strangers = 0
        self._events: List[ParsedEvent] = []
        self._begin(line)

    def _begin(self, line: Line) -> None:
        self._first = line
        """The line that begins the entry: its number, or a rule between two."""
        self._lines: List[str] = [line.text] if line.text.strip().startswith("[") else []
        self._fields: Dict[str, List[str]] = {}
        """Lines of each field."""
        self._last = ""

    def take(self, line: Line) -> bool:
        """Whether the line belongs to the report."""
        taken = self._takes(line)
        self._strangers = 0 if taken else self._strangers + 1
        self.over = self._strangers > _STRANGERS
        return taken

    def _takes(self, line: Line) -> bool:
        text = line.text
        opens = OPENER.match(text) is not None
        if opens or _ENTRY.match(text):
            self._finish()
            self._root = "Root Cause" in text or (self._root and not opens)
            self._begin(line)
            return True
        if len(self._lines) < _LINES:
            self._lines.append(text)
        field = _FIELD.match(text)
        if field is not None:
            self._last = field.group(1)
            self._fields.setdefault(self._last, [field.group(2).strip()])
            return True
        if self._last in _QUOTES:
            self._fields[self._last].append(text[2:] if text.startswith("  ") else text)
        of_message = self._last in _QUOTES and text.startswith("  ")
        return of_message or not text.strip() or "<NO_OTHER_FAILURES>" in text

    def end(self) -> Outcome:
        """Events of all entries."""
        self._finish()
        return Outcome(self._events, "")

    def _finish(self) -> None:
        """Add the event of the entry that is under way, and the exception that it quotes."""
        entry = {name: lines[0] for name, lines in self._fields.items()}
        rank, ended = _RANK.match(entry.get("rank", "")), _EXIT.match(entry.get("exitcode", ""))
        if rank is None:
            return
        data: Data = {"root": self._root, "failed_rank": int(rank.group(1))}
        if rank.group(2):
            data["local_rank"] = int(rank.group(2))
        if ended is not None:
            code = number(ended.group(1))
            signal = signal_name(ended.group(3)) if ended.group(3) else signal_of_exit(code or 0)
            data.update(exitcode=code, failed_pid=number(ended.group(2)), **({"signal": signal} if signal else {}))
        quoted = next((self._fields[name] for name in _QUOTES if name in self._fields), [""])
        raised = self._raised(quoted)
        said = quoted[0].strip('"')
        if raised:
            data["message"] = ("%(type)s: %(message)s" % raised[0].data)[:1000]
        elif said and not _NO_DETAIL.search(said):
            data["message"] = said[:1000]
        failure = ParsedEvent(
            "elastic.failure", data, times.find(entry.get("time", ""), self._now), None, entry.get("host", ""), None,
            self._first.number, "\n".join(self._lines).rstrip(),
        )  # fmt: skip
        self._events.append(failure)
        for one in raised:
            own = failure._replace(kind=one.kind, data=one.data, rank=int(rank.group(1)), text=one.text)
            self._events.append(own)

    def _raised(self, quoted: List[str]) -> List[ParsedEvent]:
        """The exception whose traceback an entry quotes."""
        if not tracebacks.OPENER.search(quoted[0]):
            return []
        trace = tracebacks.Traceback(self.line._replace(text=quoted[0], at=None))
        for text in quoted[1:]:
            if not trace.over:
                trace.take(self.line._replace(text=text, at=None))
        events, text, chain = trace.end()
        for event in events:
            if event.data.get("signature") == "user":  # what led to it tells more than an error of one's own
                event.data["signature"] = exceptions.signature(chain)
        return [event._replace(text=text) for event in events]
