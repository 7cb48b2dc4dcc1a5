"""Numbers as text. An unknown number is an en dash, never a zero."""

from __future__ import annotations

import time

UNKNOWN = "–"
SILENT = "silent"
"""State of a rank or link on a node that does not respond, whose last known state may be outdated."""


def age(seconds: float | None) -> str:
    """``7s``, ``2m10s``, ``1h05m``, ``3d04h``; a negative age (clocks differ) is ``0s``."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02}h"


def clock(at: float, *, millis: bool = False) -> str:
    """Local time of day: ``02:47:10``, with ``millis`` ``02:47:10.123``."""
    text = time.strftime("%H:%M:%S", time.localtime(at))
    return f"{text}.{int(at % 1 * 1000):03}" if millis else text


def size(count: float | None) -> str:
    """Bytes with binary prefixes, in at most five characters: ``512``, ``1.5K``, ``80.0G``, ``1023G``."""
    return _prefixed(count, 1024, ("", "K", "M", "G", "T", "P", "E"))


def rate(per_second: float | None) -> str:
    """Bytes per second: ``12.3M/s``."""
    return UNKNOWN if per_second is None else f"{size(per_second)}/s"


def thousands(number: float | None) -> str:
    """A count with decimal prefixes: ``999``, ``12.3k``, ``4.1M``."""
    return _prefixed(number, 1000, ("", "k", "M", "G", "T"))


def watts(power: float) -> str:
    """Power: ``640 W``, ``9.8 kW``, ``656 kW``, ``10.6 MW``."""
    return _prefixed(power, 1000, (" W", " kW", " MW"))


def _prefixed(value: float | None, step: int, prefixes: tuple[str, ...]) -> str:
    """A number of at most four digits with a prefix."""
    if value is None:
        return UNKNOWN
    place = 0
    while abs(value) >= step and place < len(prefixes) - 1:
        value, place = value / step, place + 1
    return f"{value:.{int(place > 0 and abs(value) < 99.95)}f}{prefixes[place]}"


def number(value: float | None, decimals: int = 0) -> str:
    """A plain number, or the dash."""
    return UNKNOWN if value is None else f"{value:.{decimals}f}"


def percent(value: float | None) -> str:
    """``97%``."""
    return UNKNOWN if value is None else f"{value:.0f}%"


def reason(error: BaseException) -> str:
    """Text of an error; an OSError without its number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def ranks_word(number: int, of: int | None) -> str:
    """``rank`` or ``ranks``, to follow ``1 of 1``, ``3 of 4`` or a single number."""
    return "rank" if (of or number) == 1 else "ranks"
