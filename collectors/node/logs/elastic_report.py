"""The block that torchrun prints for a ChildFailedError: one event per entry.

"Root Cause" is marked as what it is: the first failure that *this agent* saw.
"""

from __future__ import annotations

import json
import re
from typing import Dict, List, Optional

from collectors.node.logs import exceptions, times, tracebacks
from collectors.node.logs.rule import Data, ParsedEvent, number, signal_name, signal_of_exit

OPENER = re.compile(r"^\s*(?:Failures:|Other Failures:|Root Cause(?: \(first observed failure\))?:)\s*$")
SCRIPT = re.compile(r"^\s*(?P<script>\S.*) FAILED\s*$")
_INDEX = re.compile(r"^\s*\[\d+\]:\s*$")
_RULE = re.compile(r"^\s*(={10,}|\*{10,}|-{10,})\s*$")
_FIELD = re.compile(r"^\s{0,4}(time|host|rank|exitcode|error_file|traceback|msg)\s*:\s?(.*)$")
_RANK = re.compile(r"(\d{1,9})(?: \(local_rank: (\d{1,9})\))?")
_EXIT = re.compile(r"(-?\d+) \(pid: (\d+)\)(?:\s+\((SIG\w+)\))?")
_MESSAGE = re.compile(
    r"^\s*((?=[\w.]{0,300}(?:Error|Exception|Interrupt|Exit|Failure))[A-Za-z_][\w.]*(?::.*)?|[A-Za-z_][\w.]*: .*)$"
)
_NO_DETAIL = re.compile(r"To enable traceback see|Signal \d+ \(SIG\w+\) received|Process failed with exitcode")


class ElasticReport:
    """Takes the lines of one block; :meth:`end` gives its events."""

    def __init__(self, now: float, script: str, opener: str) -> None:
        self.now = now
        self.script = script
        self.root = "Root Cause" in opener
        self._entry: Dict[str, str] = {}
        self._message = ""
        self._in_trace = False
        self._trace: Optional[tracebacks.TracebackBlock] = None
        """What the rank had raised, where it wrote that down."""
        self._told: List[ParsedEvent] = []
        self._begun = 0
        self._text: List[str] = []

    def take(self, text: str, number: int) -> bool:
        """Whether the line belongs to the block."""
        if OPENER.match(text):
            self._finish()
            self.root = "Root Cause" in text
            return True
        if _INDEX.match(text) or _RULE.match(text):
            self._finish()
            self._begun = number
            self._text = [text] if _INDEX.match(text) else []
            return True
        if len(self._text) < 60:
            self._text.append(text)
        field = _FIELD.match(text)
        if field is not None:
            self._in_trace = field.group(1) in ("traceback", "msg")
            self._entry.setdefault(field.group(1), field.group(2).strip())
            if self._in_trace and tracebacks.OPENER.search(field.group(2)):
                self._trace = tracebacks.TracebackBlock(field.group(2).strip())
            return True
        if self._in_trace:
            stripped = text[2:] if text.startswith("  ") else text
            if self._trace is not None and not self._trace.over:
                self._trace.take(stripped)
            if _MESSAGE.match(stripped) and not stripped.startswith("  "):
                self._message = stripped.strip()
            return text.startswith("  ") or not text.strip()
        return not text.strip() or "<NO_OTHER_FAILURES>" in text

    def end(self) -> List[ParsedEvent]:
        """Events of the entries so far."""
        self._finish()
        said, self._told = self._told, []
        return said

    def _finish(self) -> None:
        entry, message, trace = self._entry, self._message, self._trace
        self._entry, self._message, self._in_trace, self._trace = {}, "", False, None
        said = self._event(entry, message) if entry else None
        if said is not None:
            self._told.append(said)
            raised = None if trace is None else trace.end()
            if raised is not None and trace is not None and said.kind == "elastic.failure":
                self._told.append(_raised(raised, trace, said))

    def _event(self, entry: Dict[str, str], message: str) -> Optional[ParsedEvent]:
        rank = _RANK.match(entry.get("rank", ""))
        if rank is None:
            return None
        data: Data = {"root": self.root, "failed_rank": int(rank.group(1))}
        if rank.group(2):
            data["local_rank"] = int(rank.group(2))
        data.update(_ended(entry))
        trace = entry.get("traceback", entry.get("msg", "")).strip('"')
        data["detail"] = bool(message) or not (_NO_DETAIL.search(trace) or not trace)
        if message or data["detail"]:
            data["message"] = (message or trace)[:1000]
        for name in ("host", "error_file"):
            if entry.get(name) and entry[name] != "<N/A>":
                data[name] = entry[name]
        if self.script:
            data["script"] = self.script
        stamp = times.find(entry.get("time", ""), self.now)
        return ParsedEvent(
            "elastic.failure",
            data,
            at=None if stamp is None else stamp.at,
            host=entry.get("host", ""),
            line=self._begun or None,
            text="\n".join(self._text).rstrip(),
        )


def _ended(entry: Dict[str, str]) -> Data:
    """How an entry's process ended; empty where it does not say."""
    ended = _EXIT.match(entry.get("exitcode", ""))
    if ended is None:
        return {}
    code = number(ended.group(1))
    data: Data = {"exitcode": code, "failed_pid": number(ended.group(2))}
    signal = signal_name(ended.group(3)) if ended.group(3) else signal_of_exit(code)
    return dict(data, signal=signal) if signal else data


def _raised(raised: ParsedEvent, trace: tracebacks.TracebackBlock, failure: ParsedEvent) -> ParsedEvent:
    """The exception of the rank that an entry is about; what led to it tells more than an error of one's own."""
    data = dict(raised.data)
    if data.get("signature") == "user":
        data["signature"] = exceptions.signature(trace.chain)
    rank = failure.data["failed_rank"]
    return raised._replace(
        data=data,
        at=failure.at,
        rank=rank if isinstance(rank, int) else None,
        host=failure.host,
        line=failure.line,
        text=trace.text,
    )


def error_file(document: bytes) -> Optional[ParsedEvent]:
    """The event of an error.json; None when the bytes are not one."""
    try:
        outer = json.loads(document.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    inner = outer.get("message") if isinstance(outer, dict) else None
    if isinstance(inner, str):
        inner = {"message": inner}
    if not isinstance(inner, dict) or not isinstance(inner.get("message"), str):
        return None
    extra = inner.get("extraInfo")
    extra = extra if isinstance(extra, dict) else {}
    data: Data = {"message": inner["message"][:2000]}
    stack = extra.get("py_callstack")
    if isinstance(stack, str):
        data.update(exceptions.of_text(stack))
    else:
        data.update(exceptions.headline(inner["message"]))
    data["message"] = inner["message"][:2000]
    at = number(str(extra.get("timestamp", "")))
    return ParsedEvent("elastic.error_file", data, at=None if at is None else float(at))
