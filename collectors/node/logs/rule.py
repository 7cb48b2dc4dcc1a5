"""A rule: what one kind of line looks like, the event that it gives, and the example that is its test.

Rules are rows of the tables in :mod:`collectors.node.logs.rules`, a file a subject. Named groups of the pattern are the
fields of the event. Three names say whose the event is instead: ``by_host``, ``by_rank`` and ``by_pid``. A group whose
name ends in ``_2`` or ``_3`` stands for the field without the ending: alternatives of one pattern may give one field.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Match, NamedTuple, Optional, Tuple

from collectors.samples.gpus import bus_key
from collectors.samples.values import Scalar, Value

Data = Dict[str, Value]
_DIGITS = 24
"""Characters of a number, with its sign and some room, that 64 bits can hold."""
_INTEGERS = frozenset(
    "rank seq group_rank timeout_ms ran_ms numel_in numel_out work enqueued started completed seconds size port code"
    " pid exitcode failed_pid closed_pid stuck_pid killed_pid signalled_pid worker_pid attempts_left joined expected ms"
    " task worker cpu gpu uptime count local_rank from_rank waited_for reporter tried of status bytes color key index"
    " failed_rank rank_a rank_b seq_a seq_b finished".split()
)
_LISTS = frozenset(("lagging", "missing", "group_ranks", "indices", "tasks"))
_ALTERNATIVES = tuple("_%d" % number for number in range(2, 9))


class ParsedEvent(NamedTuple):
    """One thing that a text says. Fields left at their default come from the line and the file's owner."""

    kind: str
    data: Data
    at: Optional[float] = None
    rank: Optional[int] = None
    host: str = ""
    pid: Optional[int] = None
    line: Optional[int] = None
    """Number of its line, where that is not the record's first."""
    text: str = ""
    """Its own words, where they are not the record's."""


class Example(NamedTuple):
    """What a rule reads: its test, and its source for the documentation. It is not sent to the nodes."""

    sample: str
    """A line (or lines) that the rule matches."""
    expect: Mapping[str, Any]
    """Fields of the event that the sample gives; its host, rank and process as ``by_host`` and so on."""
    source: str
    """Where the line comes from: project and file."""


class Rule(NamedTuple):
    """One row."""

    id: str
    kind: str
    """Kind of the event, ``torch.watchdog_timeout``: see ``docs/log-events.md``."""
    pattern: str
    example: Optional[Example]
    """None on a node."""
    data: Mapping[str, Value] = {}
    """Fields that every event of the rule has."""
    integers: Tuple[str, ...] = ()
    """Fields that are numbers here, and elsewhere are not."""
    read: Optional[Callable[["Match[str]", Data], Optional[Data]]] = None
    """Gives the fields their last form; None where the line says nothing after all."""
    also: bool = False
    """The line may say this beside what another rule of the subject finds in it."""
    begins: str = ""
    """Pattern of a first line whose record goes on in the next ones; they are joined by line feeds."""
    item: str = ""
    """Pattern of those next lines, each; empty: up to three lines, until the pattern matches."""


SIGNALS = {
    1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 11: "SEGV",
    13: "PIPE", 15: "TERM", 24: "XCPU",
}  # fmt: skip
"""Names of the signals that end processes."""


def signal_of_exit(code: Optional[int]) -> str:
    """The signal behind an exit status: negative as Python says it, 128 + n as a shell does; empty for none."""
    if code is None:
        return ""
    if code < 0:
        return SIGNALS.get(-code, str(-code))
    return SIGNALS.get(code - 128, "") if code > 128 else ""


def signal_name(text: str) -> str:
    """``KILL`` for ``SIGKILL``, ``Signals.SIGKILL`` and ``9``."""
    bare = text.strip().rsplit(".", 1)[-1].upper()
    if bare.isdecimal():
        return SIGNALS.get(int(bare[:4]), bare)
    return bare[3:] if bare.startswith("SIG") else bare


def number(text: Optional[str]) -> Optional[int]:
    """A decimal number of a log, None for anything else and beyond 64 bits; unsigned 64-bit "minus one" is -1.

    Python refuses to read a number of some thousand digits: the length comes first.
    """
    if text is None or len(text) > _DIGITS:
        return None
    try:
        value = int(text)
    except ValueError:
        return None
    if not -(1 << 63) <= value < 1 << 64:
        return None
    return value - (1 << 64) if value >= 1 << 63 else value


def numbers(text: str) -> List[Scalar]:
    """All decimal numbers of a text, those of a range ``0-3`` too; at most 4,096."""
    found: List[Scalar] = []
    for word in text.strip("[]{}").replace(",", " ").split():
        first, _, last = word.partition("-")
        low, high = number(first), number(last or first)
        if low is not None and high is not None and low <= high:
            found.extend(range(low, min(high, low + 4096 - len(found)) + 1))
    return found[:4096]


def fields(match: "Match[str]", integers: Tuple[str, ...] = ()) -> Data:
    """The named groups of a match that took part in it, each in its type."""
    data: Data = {}
    for group, text in match.groupdict().items():
        if text is None:
            continue
        name = group[:-2] if group.endswith(_ALTERNATIVES) else group
        value: Value = text.strip()
        if name in integers or (name in _INTEGERS and name not in _LISTS):
            value = number(text.strip())
        elif name in _LISTS:
            value = numbers(text)
        elif name == "bus_id":
            value = bus_key(text)
        elif name == "signal":
            value = signal_name(text)
        if value is not None and value != "":
            data[name] = value
    return data


def apply(rule: Rule, match: "Match[str]") -> Optional[ParsedEvent]:
    """The event that a match of the rule gives."""
    data: Optional[Data] = {**rule.data, **fields(match, rule.integers)}
    if data is not None and rule.read is not None:
        data = rule.read(match, data)
    if data is None:
        return None
    host, rank, pid = data.pop("by_host", ""), data.pop("by_rank", None), data.pop("by_pid", None)
    code = data.get("exitcode")
    named = signal_of_exit(code) if isinstance(code, int) else ""
    if named:
        data.setdefault("signal", named)
    return ParsedEvent(rule.kind, data, rank=number(str(rank)), host=str(host).rstrip(".-"), pid=number(str(pid)))
