"""Parses torchrun's report of a ChildFailedError: one event per entry.

The entry under "Root Cause" gets ``root``: it is only the first failure that *this agent* observed.
"""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, Tuple

from collectors.node.logs import exceptions, matching, times
from collectors.node.logs.prefixes import LabelledLine
from collectors.node.logs.records import TRACEBACK, Record, Traceback
from collectors.node.logs.rule import Data, number, parsed_event
from collectors.samples.logs import LogEvent

OPENER = r"^\s*(?:Failures:|Other Failures:|Root Cause(?: \(first observed failure\))?:)\s*$"
_ENTRY = r"^\s*(?:\[\d+\]:|={10,}|\*{10,}|-{10,})\s*$"
_END = r"^\s*={10,}\s*$"
"""The line after the root cause."""
_FIELD = r"^\s{0,4}(time|host|rank|exitcode|error_file|traceback|msg)\s*:\s?(.*)$"
_MORE = r"^  |^\s*$|^\s*<NO_OTHER_FAILURES>"
"""Continuation lines of a report: a field's quoted text, if it has several lines, is indented."""
_RANK = r"(\d{1,9})(?: \(local_rank: (\d{1,9})\))?"
_EXIT = r"(-?\d+) \(pid: (\d+)\)"
_QUOTES = ("traceback", "msg")
"""Fields that quote the exception of the rank."""
_STRANGERS, _LINES = 2, 60
"""Unrelated lines in a row that do not end a report; lines of one entry that its event carries."""


class ElasticReport(Record):
    """Collects the lines of one report."""

    def __init__(self, line: LabelledLine, now: float) -> None:
        super().__init__(line)
        self._now = now
        self._entries: List[Tuple[bool, List[LabelledLine]]] = []
        self._root = False
        self._strangers = 0
        self.take(line)

    def take(self, line: LabelledLine) -> bool:
        """Whether the line belongs to the report."""
        opens, separates = re.match(OPENER, line.text) is not None, re.match(_ENTRY, line.text) is not None
        self._root = "Root Cause" in line.text if opens else self._root
        if opens or separates:
            self._entries.append((self._root, []))
        taken = opens or separates or any(re.match(pattern, line.text) for pattern in (_FIELD, _MORE))
        if taken:
            self._entries[-1][1].append(line)
        self._strangers = 0 if taken else self._strangers + 1
        self.over = self._strangers > _STRANGERS or (self._root and re.match(_END, line.text) is not None)
        return taken

    def end(self) -> List[LogEvent]:
        """Events of all entries."""
        return [event for root, lines in self._entries for event in self._entry(lines, root)]

    def _entry(self, lines: List[LabelledLine], root: bool) -> Iterator[LogEvent]:
        """The event of one entry, and that of the exception that the entry quotes."""
        fields: Dict[str, List[str]] = {}
        last = ""
        for line in lines:
            field = re.match(_FIELD, line.text)
            if field is not None:
                last = field.group(1)
                fields.setdefault(last, [field.group(2).strip()])
            elif last in _QUOTES:
                fields[last].append(line.text[2:])
        said = {name: of_field[0] for name, of_field in fields.items()}
        rank, ended = re.match(_RANK, said.get("rank", "")), re.match(_EXIT, said.get("exitcode", ""))
        if rank is None:
            return
        data: Data = {"root": root, "failed_rank": int(rank.group(1))}
        if rank.group(2):
            data["local_rank"] = int(rank.group(2))
        if ended is not None:
            data.update(exitcode=number(ended.group(1)), failed_pid=number(ended.group(2)))
        quoted = next((fields[name] for name in _QUOTES if name in fields), [""])
        text = "\n".join(line.text for line in lines[:_LINES] if not re.match(_ENTRY, line.text) or "[" in line.text)
        at, host = times.find(said.get("time", ""), self._now), said.get("host", "")
        event = parsed_event("elastic.failure", data, text.rstrip())
        yield event._replace(at=at, host=host, line=lines[0].number)
        for raised in self._raised(quoted):
            yield raised._replace(at=at, rank=int(rank.group(1)), host=host, line=lines[0].number)

    def _raised(self, quoted: List[str]) -> List[LogEvent]:
        """The exception whose traceback an entry quotes."""
        trace = Traceback(self.line._replace(text=quoted[0], at=None))
        for text in quoted[1:]:
            if not trace.over:
                trace.take(self.line._replace(text=text, at=None))
        events = trace.end() if re.search(TRACEBACK, quoted[0]) else []
        for event in events:
            if event.data.get("signature") == "user":  # an earlier exception of the chain may have a class
                event.data["signature"] = exceptions.signature(trace.message)
        return events + (matching.quoted(trace.message) if events else [])
