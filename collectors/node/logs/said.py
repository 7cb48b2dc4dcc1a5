"""What a family of lines makes of a text: the words between the families and the parser."""

from __future__ import annotations

from typing import Callable, Dict, Iterator, List, Match, NamedTuple, Optional, Pattern, Sequence, Tuple, Union

from collectors.samples.values import Value

Data = Dict[str, Value]


class Said(NamedTuple):
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


class Family(NamedTuple):
    """One family of lines.

    ``stems`` are literals of which any line of the family has one: they are looked for in whole chunks. ``read`` gets
    such a line without its labels. ``unfinished`` matches a record whose end stands on the next line.
    """

    name: str
    stems: Tuple[bytes, ...]
    read: Callable[[str], Iterator[Said]]
    unfinished: Optional[Pattern[str]] = None
    listed: Optional[Tuple[Pattern[str], Pattern[str]]] = None
    """The end of a record that a list follows, a thing a line, and a line of that list."""
    hearsay: bool = False
    """True for a family that is asked only about lines of which no other says anything."""


Signature = Tuple[str, Pattern[str]]
_DIGITS = 24
"""Characters of a number, with its sign and some room, that 64 bits can hold."""


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


def fields(match: "Match[str]", integers: Sequence[str] = ()) -> Data:
    """The named groups of a match that took part in it; those in ``integers`` as numbers."""
    data: Data = {}
    for name, value in match.groupdict().items():
        if value is None:
            continue
        known: Union[str, int, None] = number(value) if name in integers else value.strip()
        if known is not None and known != "":
            data[name] = known
    return data


def numbers(text: str) -> List[Union[str, int, float, bool, None]]:
    """All decimal numbers of a text, as a list that an event can carry."""
    found: List[Union[str, int, float, bool, None]] = []
    for word in text.replace(",", " ").split():
        value = number(word)
        if value is not None:
            found.append(value)
    return found
