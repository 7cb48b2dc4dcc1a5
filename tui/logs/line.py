"""One line of a log: who wrote it, when, and how bad it is by its words."""

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
    """One line. ``at`` and ``serial`` order it."""

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
    """Nobody knows when it was written, but it was before ``at``."""

    @property
    def time(self) -> str:
        """When it was written, as it is shown: twelve cells."""
        return f"<{clock(self.at, millis=False)}".ljust(12) if self.before else clock(self.at)

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
"""What a filter of log lines can name."""


def severity_of(text: str) -> int:
    """How bad a line is, by its words."""
    if _ERROR.search(text):
        return 2
    return 1 if _WARNING.search(text) else 0
