"""Times as logs print them: with or without a year, a zone or a date.

Naive times are taken in the time zone of the machine that parses: on a node, that in which they were written.
"""

from __future__ import annotations

import re
import time
from typing import Match, NamedTuple, Optional, Tuple

DAY = 86400.0

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?:[.,:](?P<f>\d{1,9}))?"
_ZONE = r"(?:\s?(?P<zone>Z\b|UTC\b|[+-]\d\d:?\d\d(?!\d)))?"

ISO = r"(?P<y>(?:19|20)\d\d)[-/](?P<mo>\d\d)[-/](?P<d>\d\d)[T _-]" + _CLOCK + _ZONE
GLOG = r"(?<![A-Za-z0-9])[EWIF](?P<y>20\d\d(?=\d{4}))?(?P<mo>\d\d?)(?P<d>\d\d) " + _CLOCK
CTIME = r"(?P<mon>[A-Z][a-z]{2}) +(?P<d>\d{1,2}) (?:(?P<y2>20\d\d) )?" + _CLOCK + r"(?: (?P<y>20\d\d))?"
"""The year behind it, as ctime writes it, or in front of the clock, as Fabric Manager does."""
LEVELLED = r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<mo>\d\d)-(?P<d>\d\d) " + _CLOCK
"""vLLM's, behind the level."""
AMERICAN = r"(?P<mo>\d\d)/(?P<d>\d\d)/(?P<y>20\d\d)[ ,]+" + _CLOCK

_PATTERNS = tuple(re.compile(pattern) for pattern in (ISO, GLOG, CTIME, LEVELLED, AMERICAN))
_HEAD = 96
"""A line's own time stands within its first characters."""


class Stamp(NamedTuple):
    """A time found in a text: when, and where it stands."""

    at: float
    start: int
    end: int


def find(text: str, now: float) -> Optional[Stamp]:
    """The first time near the beginning of a line; ``now`` gives the year where the line has none."""
    head = text[:_HEAD]
    if head.count(":") < 2:
        return None  # a clock has two, and lines that tell steps come many a second
    best: Optional[Match[str]] = None
    for pattern in _PATTERNS:
        match = pattern.search(head)
        if match is not None and (best is None or match.start() < best.start()):
            best = match
    if best is None:
        return None
    at = moment(best, now)
    return None if at is None else Stamp(at, best.start(), best.end())


def last(text: str, now: float) -> Optional[float]:
    """The last time printed anywhere in a text."""
    found: Optional[Tuple[int, float]] = None
    for pattern in _PATTERNS[:4]:
        match = None
        for candidate in pattern.finditer(text):
            match = candidate
        if match is not None and (found is None or match.start() > found[0]):
            at = moment(match, now)
            if at is not None:
                found = (match.start(), at)
    return None if found is None else found[1]


def moment(match: "Match[str]", now: float) -> Optional[float]:
    """Seconds since the epoch of a match of one of the patterns above; None when it is no date."""
    fields = match.groupdict()
    month = int(fields["mo"]) if fields.get("mo") else _month(fields.get("mon") or "")
    day, hour, minute, second = (int(fields[name]) for name in ("d", "h", "m", "s"))
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61):
        return None
    fraction = float("0." + fields["f"]) if fields.get("f") else 0.0
    zone = fields.get("zone")
    known = fields.get("y") or fields.get("y2")
    if known:
        return _seconds(int(known), month, day, hour, minute, second, zone) + fraction
    year = time.localtime(now).tm_year
    at = _seconds(year, month, day, hour, minute, second, zone)
    if at > now + DAY:
        at = _seconds(year - 1, month, day, hour, minute, second, zone)
    return at + fraction


def _seconds(year: int, month: int, day: int, hour: int, minute: int, second: int, zone: Optional[str]) -> float:
    fields = (year, month, day, hour, minute, second, 0, 0)
    if not zone:
        return time.mktime((*fields, -1))
    at = time.mktime((*fields, 0)) - time.timezone
    if zone[0] in "+-":
        offset = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
        at += offset if zone[0] == "-" else -offset
    return at


def _month(name: str) -> int:
    lowered = name.lower()
    return _MONTHS.index(lowered) + 1 if lowered in _MONTHS else 0
