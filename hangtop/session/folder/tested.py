"""Tests that all passed: what was raised, logged or killed while they ran was meant to be."""

from __future__ import annotations

import re

from collectors.node.logs.parser import LogParser

_BEGUN = re.compile(rb"={3,80} test session starts ={3,80}")
_PASSED = re.compile(
    rb"={3,80} (?:\d{1,7} (?:deselected|skipped|xfailed|xpassed|warnings?|rerun), ){0,5}\d{1,7} passed"
    rb"(?:, \d{1,7} (?:deselected|skipped|xfailed|xpassed|warnings?|rerun)){0,5} in [\d.]{1,12}s"
)
_RAN = re.compile(rb"^(?:.{0,80}? )?Ran \d{1,7} tests? in [\d.]{1,12}s\s{0,4}$")
_OK = re.compile(rb"^(?:.{0,80}? )?OK(?: \((?:skipped|expected failures)=[^\r\n]{1,80}\))?\s{0,4}$")
_NEAR = 3
"""Lines below in which unittest says how it went."""


def sessions(head: bytes, parser: LogParser) -> list[tuple[int, int]]:
    """First and last line of each run of pytest or unittest at the end of a log of which every test passed.

    ``head`` are the first bytes of the log, in which a long one may have begun.
    """
    rows = parser.tail.split(b"\n")
    first = parser.line - parser.tail.count(b"\n")
    found: list[tuple[int, int]] = []
    begun = _first(head) if first > 1 else 0
    for at, row in enumerate(rows):
        if _BEGUN.search(row):
            begun = first + at
        elif (begun and _PASSED.search(row)) or (
            _RAN.match(row) and any(map(_OK.match, rows[at + 1 : at + 1 + _NEAR]))
        ):
            found.append((begun, first + at))
            begun = 0
    return found


def _first(head: bytes) -> int:
    """The line of the log's beginning on which a session began; 0 where none did."""
    rows = head.split(b"\n")
    return next((at + 1 for at, row in enumerate(rows) if _BEGUN.search(row)), 0)
