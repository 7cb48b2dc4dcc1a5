"""One record of a log without what launchers put in front of it: labels, times, escape codes, wrappers."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Tuple

from collectors.node import late_re as re
from collectors.node.logs.lines import labels, quoting, structured, times, whose

LONGEST = 16384
"""Bytes of one record that are looked at; what a longer one has after them is skipped."""
SEEN = 4096
"""Characters of a record that the families see, its labels gone: of a longer one the beginning and the end.

A pattern that looks for the end of something from each of its beginnings needs the square of the length: for so many
characters some milliseconds. It is the bound by which every pattern of the families is tested.
"""
_AT_END = 1024
"""Of those, characters of the end."""

_STAMPED = re.compile(
    r"[\[(]?(?:"
    + "|".join(re.sub(r"\?P<\w+>", "?:", p) for p in (times.ISO, times.AMERICAN))
    + r"|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?=\]? \[(?:rank|default)\d))[\])]?[ ]?"
)

_SPLIT = re.compile(
    r"(?<=[^\s\]:>|])(?=\[(?:rank|default)\d+\]:)"
    r"|(?<=it/s\])(?=\[rank\d+\]:)|(?<=s/it\])(?=\[rank\d+\]:)"
    r"|(?<=.)(?=(?<![\w.<>-])[\w.<>-]+:\d+:\d+ \[\d+\] (?:NCCL|\S+:\d+ (?:\(\w+\) )?NCCL))"
    r"|(?<=[^\s\[:\]])(?=\[[EWIF]\d{3,8} \d\d:\d\d:\d\d|\[[EWIF] \w+\.cpp:\d+\])"
    r"|(?<=[^\s\"'])(?=Traceback \(most recent call last\):\s*$)"
)

_BAR = re.compile(r" {0,4}(?:\| {1,6}){0,5}\| ?(?=(?:19|20)\d\d[-/]|\[(?:rank|default)\d)")
"""What tables of log viewers put between their columns."""
_COLUMN = re.compile(r"\| ?")
_SYSLOG = re.compile(
    r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?P<host>[A-Za-z][\w.-]{0,100}) (?!kernel)(?P<program>[\w./-]{1,80})"
    r"(?:\[\d{1,9}\])?: "
)
"""The journal's time, host and program."""
_SYSLOG_ISO = re.compile(
    r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)"
    r" (?P<host>[A-Za-z][\w.-]{0,100}) (?!kernel)(?P<program>[\w./-]{1,80})\[\d{1,9}\]: "
)
"""The same with a time of ISO's form, as ``journalctl -o short-iso`` and rsyslog write it."""
_SYSLOG_LOCAL = re.compile(
    r"(?:\d{1,2}[月월]|[^\W\d_]{3,10}\.?) {1,2}\d{1,2} \d\d:\d\d:\d\d (?P<host>[A-Za-z][\w.-]{0,100}) (?!kernel)"
    r"(?P<program>[\w./-]{1,80})\[\d{1,9}\]: "
)
"""The same with the month in another language: ``avril 16``, ``11月 15``. Its time is not read."""
_DAEMON_OF_SLURM = re.compile(
    r"\[20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\] (?:\[[\w.+]{1,40}\] )?(?=(?:error|warning|debug\d?|verbose): )"
)
"""The log of one of Slurm's own daemons, which names no program."""
_DATED = re.compile(
    r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?= {2}\S| {4}|Traceback \(|[\w.]{1,80}(?:Error|Exception): )"
)
"""A time without a zone or a host, in front of a traceback's lines."""
_JUNK = re.compile(r"(?:\[\d{1,9}\] ?|\d{1,9}[:|)] ?|[\w.-]{1,30} ?[|>] ?)+(?=\[rank\d{1,7}\]:)")
"""What log viewers put before the label: counters, names."""


class Stream(NamedTuple):
    """Who wrote a line, as far as its labels tell: lines of one stream follow one another."""

    rank: Optional[int] = None
    local_rank: Optional[int] = None
    host: str = ""
    tag: str = ""


class Line(NamedTuple):
    """One record. ``text`` keeps the indentation that followed the labels."""

    number: int
    text: str
    stream: Stream
    at: Optional[float]
    """Time among the labels in front; :func:`moment` looks into the text too."""
    pid: Optional[int]
    labelled: bool
    """True when a label or a time stood in front: a wrapped line's second half has none."""
    program: str = ""
    """The program that a journal names in front."""
    warned: bool = False
    """True when a label told the level of warnings."""


def records(raw: bytes, number: int, now: float) -> Iterator[Line]:
    """The records of one line: one as a rule, several when ranks or a progress bar wrote into one another."""
    text = raw[:LONGEST].decode("utf-8", "replace")
    text = quoting.cleaned(text)
    first = _unlabel(text, number, now)
    inner = structured.lines(first.text) if len(first.text) > 24 else [first.text]
    if len(inner) > 1:
        for piece in inner:
            yield first._replace(text=seen(piece))
        return
    pieces = [piece for piece in _SPLIT.split(first.text) if piece] if len(first.text) > 24 else [first.text]
    if len(pieces) <= 1:
        yield first if len(first.text) <= SEEN else first._replace(text=seen(first.text))
        return
    yield first._replace(text=seen(pieces[0]))
    for piece in pieces[1:]:
        line = _unlabel(piece, number, now)
        named = line.stream != Stream()
        stream, pid = (line.stream, line.pid) if named else (first.stream, line.pid or first.pid)
        at = line.at if line.at is not None else first.at
        yield line._replace(text=seen(line.text), stream=stream, at=at, pid=pid, labelled=True)


def above(stream: Stream, raw: bytes, now: float) -> bytes:
    """The line above a record of this stream; nothing where another rank's label stands in front of it, or none."""
    if stream.rank is None and stream.local_rank is None:
        return raw
    said = [record.stream for record in records(raw, 0, now)]
    return raw if said and said[-1][:2] == stream[:2] else b""


def seen(text: str) -> str:
    """As much of a text as patterns may see, its middle left out."""
    return text if len(text) <= SEEN else text[: SEEN - _AT_END - 3] + " … " + text[-_AT_END:]


def moment(record: Line, now: float) -> Optional[float]:
    """Time of a record: the one in front of it, else the one that its text begins with."""
    if record.at is not None:
        return record.at
    found = times.find(record.text, now)
    return None if found is None else found.at


def _unlabel(text: str, number: int, now: float) -> Line:
    at: Optional[float] = None
    pid: Optional[int] = None
    rank: Optional[int] = None
    local: Optional[int] = None
    host, tag, written, warned = "", "", "", False
    text = start = structured.member(quoting.unquoted(text))
    if text.startswith("{"):
        text, at, rank, written = structured.unwrapped(text, now)
    text, dated, host, program = _dated(text, now)
    at, host = dated if dated is not None else at, host or written
    barred = False
    for _ in range(8):
        bar = _BAR.match(text) or (_COLUMN.match(text) if barred else None)
        barred = barred or bar is not None
        text = text if bar is None else text[bar.end() :]
        stamped = _STAMPED.match(text)
        if stamped is not None:
            found = times.find(stamped.group(), now)
            at = found.at if found is not None else at
            text = text[stamped.end() :]
            continue
        label = labels.label(text)
        if label is None:
            junk = _JUNK.match(text) if "[rank" in text[:60] else None
            if junk is None or not junk.end():
                break
            text = text[junk.end() :]
            continue
        length, what, value, extra = label
        if what == "ray" and rank is None:
            rank = whose.rank_of(text[:length])
        front, text = text[:length], text[length:]
        if what == "rank":
            rank = int(value)
        elif what == "local":
            local = int(value)
        elif what == "host":
            host = value
        elif what in ("hosted", "numbered"):
            rank = int(value)
            host, pid = (extra, pid) if what == "hosted" else (host, int(extra))
        elif what in ("ray", "process"):
            pid, host, tag = int(value), extra or host, value
        else:
            tag, warned = value or tag, warned or labels.is_warning(front)
    return Line(number, text, Stream(rank, local, host, tag), at, pid, text is not start, program, warned)


def _dated(text: str, now: float) -> Tuple[str, Optional[float], str, str]:
    """A line without the time that a journal puts in front, that time, the host and the program."""
    journal = _SYSLOG.match(text) or _SYSLOG_ISO.match(text) or _SYSLOG_LOCAL.match(text)
    stamp = journal or _DATED.match(text)
    if stamp is None:
        return text, None, "", "slurmd" if _DAEMON_OF_SLURM.match(text) else ""
    found = times.find(stamp.group(), now)
    host, program = ("", "") if journal is None else journal.group("host", "program")
    return text[stamp.end() :], None if found is None else found.at, host, program
