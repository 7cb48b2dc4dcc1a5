"""Parses times in logs, with or without year and time zone.

Times without a zone are taken in the time zone of the parsing machine: on a node, the zone in which they were written.
"""

from __future__ import annotations

import re
import time
from typing import Match, Optional, Tuple

DAY = 86400.0

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?:[.,:](?P<f>\d{1,9}))?"
_ZONE = r"(?:\s?(?P<zone>Z\b|UTC\b|[+-]\d\d:?\d\d(?!\d)))?"

ISO = r"(?P<y>(?:19|20)\d\d)[-/](?P<mo>\d\d)[-/](?P<d>\d\d)[T _-]" + _CLOCK + _ZONE
GLOG = r"(?<![A-Za-z0-9])[EWIF](?P<y>20\d\d(?=\d{4}))?(?P<mo>\d\d?)(?P<d>\d\d) " + _CLOCK
CTIME = r"(?P<mon>[A-Z][a-z]{2}) +(?P<d>\d{1,2}) (?:(?P<y2>20\d\d) )?" + _CLOCK + r"(?: (?P<y>20\d\d))?"
"""The year comes last, as in ctime, or before the time of day, as in Fabric Manager's log."""
LEVELLED = r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<mo>\d\d)-(?P<d>\d\d) " + _CLOCK
"""vLLM's format, after the level."""
AMERICAN = r"(?P<mo>\d\d)/(?P<d>\d\d)/(?P<y>20\d\d)[ ,]+" + _CLOCK

_PATTERNS = (ISO, GLOG, CTIME, LEVELLED, AMERICAN)
_HEAD = 96
"""Characters at the beginning of a line that may contain its own time."""


def find(text: str, now: float) -> Optional[float]:
    """The first time near the beginning of a line, in any case; ``now`` gives the year if the time has none."""
    head = text[:_HEAD]
    if head.count(":") < 2:
        return None  # a fast exit: every clock has two colons, and lines with steps are frequent
    found = [match for match in (re.search(pattern, head, re.I) for pattern in _PATTERNS) if match is not None]
    best = min(found, key=lambda match: match.start(), default=None)
    return None if best is None else _moment(best, now)


def last(text: str, now: float) -> Optional[float]:
    """The last time printed anywhere in a text."""
    found = [match for pattern in _PATTERNS for match in re.finditer(pattern, text)]
    latest = sorted(found, key=lambda match: match.start(), reverse=True)
    return next(filter(None, (_moment(match, now) for match in latest)), None)


def _moment(match: "Match[str]", now: float) -> Optional[float]:
    """Seconds since the epoch of a match of one of the patterns above; None for an invalid date."""
    fields = match.groupdict()
    name = (fields.get("mon") or "").lower()
    month = int(fields["mo"]) if fields.get("mo") else _MONTHS.index(name) + 1 if name in _MONTHS else 0
    day, hour, minute, second = (int(fields[name]) for name in ("d", "h", "m", "s"))
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61):
        return None
    known, zone = fields.get("y") or fields.get("y2"), fields.get("zone")
    year = int(known or time.localtime(now).tm_year)
    at = _seconds((year, month, day, hour, minute, second), zone)
    if not known and at > now + DAY:
        at = _seconds((year - 1, month, day, hour, minute, second), zone)
    return at + (float("0." + fields["f"]) if fields.get("f") else 0.0)


def _seconds(date: Tuple[int, int, int, int, int, int], zone: Optional[str]) -> float:
    if not zone:
        return time.mktime((*date, 0, 0, -1))
    offset = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60 if zone[0] in "+-" else 0
    return time.mktime((*date, 0, 0, 0)) - time.timezone + (offset if zone[0] == "-" else -offset)
