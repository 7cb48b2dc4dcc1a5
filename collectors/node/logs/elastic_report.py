"""The record that torchrun prints for a ChildFailedError: one event per entry.

"Root Cause" is marked as what it is: the first failure that *this agent* saw.
"""

from __future__ import annotations

import re
from typing import Dict, List, Optional

from collectors.node.logs import exceptions, times, tracebacks
from collectors.node.logs.prefixes import Line
from collectors.node.logs.records import Outcome
from collectors.node.logs.rule import Data, ParsedEvent, number, signal_name, signal_of_exit

OPENER = re.compile(r"^\s*(?:Failures:|Other Failures:|Root Cause(?: \(first observed failure\))?:)\s*$")
_ENTRY = re.compile(r"^\s*(?:\[\d+\]:|={10,}|\*{10,}|-{10,})\s*$")
_FIELD = re.compile(r"^\s{0,4}(time|host|rank|exitcode|error_file|traceback|msg)\s*:\s?(.*)$")
_RANK = re.compile(r"(\d{1,9})(?: \(local_rank: (\d{1,9})\))?")
_EXIT = re.compile(r"(-?\d+) \(pid: (\d+)\)(?:\s+\((SIG\w+)\))?")
_NO_DETAIL = re.compile(r"To enable traceback see|Signal \d+ \(SIG\w+\) received|Process failed with exitcode")
_STRANGERS, _LINES = 2, 60
"""Lines of others within a report; lines of one entry that its event carries."""


class ElasticReport:
    """Takes the lines of one report."""

    def __init__(self, now: float, opener: str) -> None:
        self.over = False
        self._now = now
        self._root = "Root Cause" in opener
        self._strangers = 0
        self._events: List[ParsedEvent] = []
        self._begin(0, "")

    def _begin(self, line: int, text: str) -> None:
        self._entry: Dict[str, str] = {}
        self._last = ""
        """The field that the last line belongs to."""
        self._trace: Optional[tracebacks.Traceback] = None
        """What the rank had raised, where it wrote that down."""
        self._line, self._lines = line, [text] if text.strip().startswith("[") else []

    def take(self, line: Line) -> bool:
        """Whether the line belongs to the report."""
        taken = self._takes(line.text, line.number)
        self._strangers = 0 if taken else self._strangers + 1
        self.over = self._strangers > _STRANGERS
        return taken

    def _takes(self, text: str, number: int) -> bool:
        opens = OPENER.match(text) is not None
        if opens or _ENTRY.match(text):
            self._finish()
            self._root = "Root Cause" in text or (self._root and not opens)
            self._begin(number, text)
            return True
        if len(self._lines) < _LINES:
            self._lines.append(text)
        field = _FIELD.match(text)
        if field is not None:
            self._last, said = field.group(1), field.group(2).strip()
            self._entry.setdefault(self._last, said)
            if self._last in ("traceback", "msg") and tracebacks.OPENER.search(said):
                self._trace = tracebacks.Traceback(said)
            return True
        if self._trace is not None and not self._trace.over and self._last in ("traceback", "msg"):
            self._trace.take_text(text[2:] if text.startswith("  ") else text)
        of_message = self._last in ("traceback", "msg") and text.startswith("  ")
        return of_message or not text.strip() or "<NO_OTHER_FAILURES>" in text

    def end(self) -> Outcome:
        """Events of all entries."""
        self._finish()
        return Outcome(self._events, "")

    def _finish(self) -> None:
        """Add the event of the entry that is under way, and the exception that it quotes."""
        entry, trace, self._trace = self._entry, self._trace, None
        rank, ended = _RANK.match(entry.get("rank", "")), _EXIT.match(entry.get("exitcode", ""))
        if rank is None:
            return
        quoted = [] if trace is None else trace.end().events
        said = entry.get("traceback", entry.get("msg", "")).strip('"')
        data: Data = {"root": self._root, "failed_rank": int(rank.group(1))}
        if rank.group(2):
            data["local_rank"] = int(rank.group(2))
        if ended is not None:
            code = number(ended.group(1))
            signal = signal_name(ended.group(3)) if ended.group(3) else signal_of_exit(code or 0)
            data.update(exitcode=code, failed_pid=number(ended.group(2)), **({"signal": signal} if signal else {}))
        if quoted:
            data["message"] = ("%(type)s: %(message)s" % quoted[0].data)[:1000]
        elif said and not _NO_DETAIL.search(said):
            data["message"] = said[:1000]
        failure = ParsedEvent(
            "elastic.failure", data, times.find(entry.get("time", ""), self._now), None, entry.get("host", ""), None,
            self._line or None, "\n".join(self._lines).rstrip(),
        )  # fmt: skip
        self._events.append(failure)
        for raised in quoted:
            assert trace is not None
            if raised.data.get("signature") == "user":  # what led to it tells more than an error of one's own
                raised.data["signature"] = exceptions.signature(trace.chain)
            own = failure._replace(kind=raised.kind, data=raised.data, rank=int(rank.group(1)), text=trace.text)
            self._events.append(own)
