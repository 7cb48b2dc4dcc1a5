"""A rule: what one kind of line looks like, the event that it gives, and the example that is its test.

Rules are rows of the tables in :mod:`collectors.node.logs.rules`, a file a subject. Named groups of the pattern are the
fields of the event: text, but numbers where ``_INTEGERS`` or ``_LISTS`` names them. Three names say whose the event is
instead: ``by_host``, ``by_rank`` and ``by_pid``. A group whose name ends in ``_2`` or ``_3`` stands for the field
without the ending: alternatives of one pattern may give one field.
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
    " numel_in enqueued timeout_ms ran_ms ms seconds pid failed_pid worker_pid exitcode code port gpu".split()
)
_LISTS = frozenset(("lagging", "missing", "group_ranks", "tasks"))
_SIGNALS = {
    word: one.name[3:]
    for one in reversed(signal.Signals)
    for word in (str(int(one)), (signal.strsignal(one) or "").partition(" ")[0].upper())
}
"""Signals by their number, and by the first word of what strsignal(3) calls them."""


def parsed_event(kind: str, data: Data, text: str = "") -> LogEvent:
    """An event as a text tells it: its line and the file's owner give what it does not have."""
    return LogEvent(kind, None, None, "", None, "", 0, text, data)


class Example(NamedTuple):
    """What a rule reads: its test, and its source for the documentation."""

    sample: str
    """A line (or lines) that the rule matches."""
    expect: Mapping[str, Any]
    """Fields of the event that the sample gives; its host, rank and process as ``by_host`` and so on."""
    source: str
    """Where the line comes from: project and file."""


class Rule(NamedTuple):
    """One row. Of the rules of one kind the first that matches a line gives the event."""

    kind: str
    """Kind of the event, ``torch.watchdog_timeout``: see ``docs/log-events.md``."""
    words: str
    """Words, with ``|`` between them, of which any line that the pattern matches has one: other lines are not looked
    at."""
    pattern: str
    example: Example
    data: Mapping[str, Value] = {}
    """Fields that every event of the rule has."""
    read: Optional[Callable[["Match[str]", Data], Optional[Data]]] = None
    """Gives the fields their last form; None where the line says nothing after all."""
    begins: str = ""
    """Pattern of a first line whose record goes on in the next ones: the rule sees them joined by line feeds."""

    def apply(self, text: str) -> Optional[LogEvent]:
        """The event that a text gives; None where the pattern does not match."""
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
    """A decimal number of a log, None for anything else and beyond 64 bits; unsigned 64-bit "minus one" is -1."""
    try:
        value = int(text or "")
    except ValueError:
        return None
    value -= 1 << 64 if value >= 1 << 63 else 0
    return value if -(1 << 63) <= value < 1 << 63 else None


def numbers(text: str) -> List[Scalar]:
    """All decimal numbers of a text, those of a range ``0-3`` too; at most 4,096."""
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
    """The named groups of a match that took part in it, each in its type."""
    data: Data = {}
    for group, text in match.groupdict("").items():
        name = re.sub(r"_\d$", "", group)
        value = _TYPES.get(name, str)(text.strip())
        if text and value is not None and value != "":
            data[name] = value
    return data
