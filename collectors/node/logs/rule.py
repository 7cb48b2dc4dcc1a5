"""A rule: the pattern of a line, the event that it gives, and an example, which is also its test.

Rules are rows of the tables in :mod:`collectors.node.logs.rules`, one file per subject. Named groups of the pattern
become fields of the event: text, or numbers for names in ``_INTEGERS`` or ``_LISTS``. The names ``by_host``,
``by_rank`` and ``by_pid`` identify the event's process instead. The suffix ``_2`` or ``_3`` of a group is dropped, so
that alternatives of one pattern can fill the same field.
"""

from __future__ import annotations

import re
import signal
from typing import Any, Callable, Dict, List, Mapping, Match, NamedTuple, Optional

from collectors.samples import Scalar, Value
from collectors.samples.gpus import bus_key
from collectors.samples.logs import LogEvent

Data = Dict[str, Value]
_INTEGERS = frozenset(
    "seq seq_a seq_b rank_a rank_b group_rank local_rank from_rank task tried status size joined expected"
    " numel_in enqueued completed timeout_ms ran_ms ms seconds pid failed_pid worker_pid exitcode code port gpu".split()
)
_LISTS = frozenset(("lagging", "missing", "group_ranks", "tasks"))
_SIGNALS = {
    word: number.name[3:]
    for number in reversed(signal.Signals)
    for word in (str(int(number)), (signal.strsignal(number) or "").partition(" ")[0].upper())
}
"""Signal names by number, and by the first word of strsignal(3)'s description."""


def parsed_event(kind: str, data: Data, text: str = "") -> LogEvent:
    """An event with only kind, fields and text; the reader fills in the rest."""
    return LogEvent(kind, None, None, "", None, "", 0, text, data)


class Example(NamedTuple):
    """Example of a rule: serves as its test, and as its source in the documentation."""

    sample: str
    """A line (or lines) that the rule matches."""
    expect: Mapping[str, Any]
    """Expected fields of the sample's event; its host, rank and pid as ``by_host`` and so on."""
    source: str
    """Where the line comes from: project and file."""


class Rule(NamedTuple):
    """One row. Among the rules of one kind, the first that matches a line gives the event."""

    kind: str
    """Kind of the event, ``torch.watchdog_timeout``: see ``docs/log-events.md``."""
    words: str
    """Words, separated by ``|``; every line that the pattern matches must contain one. Other lines are skipped."""
    pattern: str
    example: Example
    data: Mapping[str, Value] = {}
    """Fields of every event of the rule."""
    read: Optional[Callable[["Match[str]", Data], Optional[Data]]] = None
    """Returns the final fields, or None to reject the line."""
    begins: str = ""
    """Pattern of the first line of a multi-line record; the rule sees the record's lines joined by line feeds."""

    def apply(self, text: str) -> Optional[LogEvent]:
        """Event of a text; None if the rule does not match."""
        match = re.search(self.pattern, text)
        data: Optional[Data] = None if match is None else {**self.data, **fields(match)}
        if match is not None and data is not None and self.read is not None:
            data = self.read(match, data)
        if data is None:
            return None
        host, rank, pid = data.pop("by_host", ""), data.pop("by_rank", None), data.pop("by_pid", None)
        host = str(host).rstrip(".-")
        return parsed_event(self.kind, data)._replace(rank=number(str(rank)), host=host, pid=number(str(pid)))


def signal_name(text: str) -> str:
    """``KILL`` for ``SIGKILL``, ``Signals.SIGKILL``, ``Killed`` and ``9``."""
    bare = text.strip().rsplit(".", 1)[-1].upper()
    return _SIGNALS.get(bare.partition(" ")[0], bare[3:] if bare.startswith("SIG") else bare)


def number(text: Optional[str]) -> Optional[int]:
    """Parse a decimal number; None if invalid or beyond 64 bits; an unsigned 64-bit "minus one" becomes -1."""
    try:
        value = int(text or "")
    except ValueError:
        return None
    value -= 1 << 64 if value >= 1 << 63 else 0
    return value if -(1 << 63) <= value < 1 << 63 else None


def numbers(text: str) -> List[Scalar]:
    """All decimal numbers in a text, ranges like ``0-3`` expanded; at most 4,096."""
    found: List[Scalar] = []
    for word in text.strip("[]{}").replace(",", " ").split():
        first, _, last = word.partition("-")
        low, high = number(first), number(last or first)
        if low is not None and high is not None and low <= high:
            found.extend(range(low, min(high, low + 4096 - len(found)) + 1))
    return found[:4096]


_TYPES: Mapping[str, Callable[[str], Value]] = {
    **dict.fromkeys(_INTEGERS, number), **dict.fromkeys(_LISTS, numbers), "bus_id": bus_key, "signal": signal_name,
    "peer": lambda text: text.rstrip(":."),
}  # fmt: skip


def fields(match: "Match[str]") -> Data:
    """Non-empty named groups of a match, each converted to its type."""
    data: Data = {}
    for group, text in match.groupdict("").items():
        name = re.sub(r"_\d$", "", group)
        value = _TYPES.get(name, str)(text.strip())
        if text and value is not None and value != "":
            data[name] = value
    return data
