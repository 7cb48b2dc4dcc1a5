"""One log line with its rank, time and severity."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from tui.looks.format import clock
from tui.ordering.filter import Value

SEVERITIES = ("info", "warning", "error")

_ERROR = re.compile(
    r"\b(?:error|fatal|critical|exception|traceback|abort(?:ed|ing)?|segfault|sigsegv|sigabrt|killed|panic|xid)\b"
    r"|NCCL WARN|out of memory|(?:^|[][:] ?)[EF]\d{4} \d\d:|Error\b",
    re.IGNORECASE,
)
_WARNING = re.compile(
    r"\b(?:warn|warning|timeout|timed out|retry|refused|slow)\b|(?:^|[][:] ?)W\d{4} \d\d:", re.IGNORECASE
)


class LogLine(NamedTuple):
    """One line, ordered by ``at`` and ``serial``."""

    at: float
    serial: int
    node: str
    rank: int | None
    severity: int
    """Index into ``SEVERITIES``."""
    source: str
    """Path, ``dmesg``, ``nvml`` …"""
    line: int
    """Line number in the source; 0 when unknown."""
    text: str
    before: bool = False
    """True if the line was written at an unknown time before ``at``."""

    @property
    def time(self) -> str:
        """The time as shown, in twelve cells."""
        return f"<{clock(self.at)}".ljust(12) if self.before else clock(self.at, millis=True)

    @property
    def writer(self) -> str:
        """Rank or node."""
        return self.node if self.rank is None else f"r{self.rank}"


FIELDS: dict[str, Callable[[LogLine], Value]] = {
    "rank": lambda line: line.rank,
    "node": lambda line: line.node,
    "severity": lambda line: SEVERITIES[line.severity],
    "file": lambda line: line.source,
    "text": lambda line: line.text,
}
"""Fields that a filter of log lines can use."""


def severity_of(text: str) -> int:
    """Index into ``SEVERITIES``, by words in the text."""
    if _ERROR.search(text):
        return 2
    return 1 if _WARNING.search(text) else 0
