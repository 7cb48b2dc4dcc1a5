"""Where a log begins once more: the words it begins with stand there again, as of another run into the same file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from collectors.node.logs.lines import counters, times
from collectors.node.logs.parser import LogParser
from collectors.samples.logs import LogEvent

ROWS, LETTERS = 3, 40
"""Lines at the beginning that must stand there again, and letters in them: less may be any script's banner."""
BEHIND = 3
"""Lines that stand behind them at least."""
NEAR = 12
"""Lines behind the beginning in which it may not stand again, unless that is rare: what comes so often is a row of
every step's. A run that failed at once leaves no more behind either."""
STAMPED = 40
"""Lines from it on of which one may print a time."""
POSTSCRIPT = 12
"""Lines that LSF writes behind a report at most: more are another job's."""
LATER_S = 60.0
"""Seconds after a fault at which others of one job that write the same file have begun, too."""
_LONGEST = 400
_DIGITS = re.compile(r"\d+")
_LETTER = re.compile(r"[A-Za-z]")
_TROUBLE = re.compile(r"(?i)traceback|^\s*file \"|error|exception|fail|abort|fatal|kill|signal|critical")


class Beginning(NamedTuple):
    """The last place at which a log begins again."""

    line: int
    at: float | None
    """The first time that is printed behind it; None where none is."""
    before: float | None
    """The last one in front of it."""

    def is_later(self, told: float | None) -> bool:
        """Whether it stands so long behind what was told then; None: at an unknown time in front of it."""
        earlier = told if told is not None else self.before
        return self.at is not None and earlier is not None and self.at - earlier >= LATER_S


def last(head: bytes, parser: LogParser, now: float) -> Beginning | None:
    """The last beginning but the first, in as much of the log's end as is kept; None where the log begins but once.

    ``head`` are the first bytes of the log, ``now`` gives the year to times without one.
    """
    first = _rows(head[: NEAR * _LONGEST])
    opening = [row for _, row in first[:ROWS]]
    if not _tells(opening):
        return None
    rows = _rows(parser.tail)
    if _again([row for _, row in first[1:NEAR]], opening) is not None and _is_frequent(rows, opening):
        return None
    place = _again([row for _, row in rows[: len(rows) - BEHIND]], opening)
    if place is None:
        return None
    number, end = rows[place][0], parser.tail.split(b"\n")
    line = parser.line - parser.tail.count(b"\n") + number
    if line <= ROWS:
        return None  # the only one
    stamps = (times.find(raw[:_LONGEST].decode("utf-8", "replace"), now) for raw in end[number : number + STAMPED])
    at = next((stamp.at for stamp in stamps if stamp is not None), None)
    return Beginning(line, at, times.last(b"\n".join(end[:number]).decode("utf-8", "replace"), now))


def reported(events: Sequence[LogEvent], end: int) -> int:
    """The last line of earlier jobs in a file to which LSF added its reports, of ``end`` lines; 0 where there are none.

    A report whose output stands above ends its job; one whose output stands below begins with it.
    """
    told = [event for event in events if event.kind == "job.reported"]
    above = [event.line for event in told if event.data.get("output") == "above"]
    below = max((event.line for event in told if event.data.get("output") == "below"), default=0)
    heads = [event.line for event in told if "output" not in event.data and event.line < below]
    if below:
        return max(heads, default=1) - 1
    if above and end - above[-1] > POSTSCRIPT:
        return above[-1]
    return above[-2] if len(above) > 1 else 0


def _rows(data: bytes) -> list[tuple[int, str]]:
    """The lines that are not empty, without their numbers, each with its place."""
    texts = (raw[:_LONGEST].decode("utf-8", "replace").strip() for raw in data.split(b"\n"))
    return [(number, _DIGITS.sub("#", text)) for number, text in enumerate(texts) if text]


def _tells(opening: list[str]) -> bool:
    if len(set(opening)) < ROWS or any(map(_TROUBLE.search, opening)):
        return False
    counted = any(counters.counted(row.lower().replace("#", "1")) is not None for row in opening)
    return not counted and len(_LETTER.findall("".join(opening))) >= LETTERS


def _is_frequent(rows: list[tuple[int, str]], opening: list[str]) -> bool:
    """Whether the first line stands so often that few others stand between."""
    return sum(row == opening[0] for _, row in rows) * NEAR > len(rows)


def _again(rows: list[str], opening: list[str]) -> int | None:
    """The last place of these rows in a row."""
    places = range(len(rows) - ROWS, -1, -1)
    return next((place for place in places if rows[place : place + ROWS] == opening), None)
