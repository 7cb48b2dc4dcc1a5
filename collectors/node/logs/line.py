"""One record of a log without what launchers put in front of it: labels, times, escape codes, wrappers."""

from __future__ import annotations

import json
import re
from typing import Iterator, List, NamedTuple, Optional, Tuple

from collectors.node.logs import times

LONGEST = 16384
"""Bytes of one record that are looked at; what a longer one has after them is skipped."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78cDEHM])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

_ROLE = re.compile(r"\[([A-Za-z_]\w*?)[ =:]?(\d{1,7})\]:[ ]?")
_MPI = re.compile(r"\[(?:\d+,)?(\d{1,7})\](?:\[[^\]]*\])?<std(?:out|err|diag)>:?[ ]?")
_TASK = re.compile(r"[ ]{0,6}(\d{1,6}):(?: |$)")
_RANK = re.compile(r"(?:[Rr]ank|RANK)[ =:_-]?(\d{1,7})[ ]?[:|>][ ]?")
_RAY = re.compile(r"\((?:[\w.:<>-]+ )?pid=(\d+)(?:, ip=([\w.:-]+))?\)[ ]?")
_LOGGER = re.compile(
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:\d\d-\d\d \d\d:\d\d:\d\d )?(?:\[[\w./-]+\.py:\d+\]|[\w.-]+\.py:\d+\]) ?"
)
_PIPED = re.compile(r"\| ?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) *\| (?:stderr|stdout) \| ?")
_COMPOSE = re.compile(r"([A-Za-z][\w.-]*)[ ]+\| ")
_POD = re.compile(r"\[pod/([^/\]]+)/[^\]]*\] ")
_CRI = re.compile(r"(?:stdout|stderr) [FP] ")
_HOST = re.compile(r"([A-Za-z][\w-]*(?:\.[\w-]+)*): ")
_NO_HOST = re.compile(
    r"(?i)[\w.-]*(?:error|exception|warning|interrupt|exit|info|debug|critical|traceback|failures|note|hint|kernel)$"
    r"|(?:epoch|step|loss|iter\w*|batch|(?-i:GPU)|cuda|torch|nccl|layer|rank|line|v|version|python|srun|slurm)[\w.-]*$|gpu\d?$|E[A-Z0-9]\d{4}$"
)
_STAMPED = re.compile(
    r"[\[(]?(?:"
    + "|".join(re.sub(r"\?P<\w+>", "?:", p) for p in (times.ISO, times.AMERICAN))
    + r"|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?=\]? \[(?:rank|default)\d))[\])]?[ ]?"
)

_SPLIT = re.compile(
    r"(?<=[^\s\]:>|])(?=\[(?:rank|default)\d+\]:)"
    r"|(?<=.)(?=(?<![\w.<>-])[\w.<>-]+:\d+:\d+ \[\d+\] (?:NCCL|\S+:\d+ (?:\(\w+\) )?NCCL))"
    r"|(?<=[^\s\[:\]])(?=\[[EWIF]\d{3,4} \d\d:\d\d:\d\d|\[[EWIF] \w+\.cpp:\d+\])"
    r"|(?<=[^\s\"'])(?=Traceback \(most recent call last\):\s*$)"
)

_QUOTED = re.compile(r"(?:> ?){1,4}(?=\S)")
_JUNK = re.compile(r"(?:\[\d{1,9}\] ?|\d{1,9}[:|)] ?|[\w.-]{1,30} ?[|>] ?)+(?=\[rank\d{1,7}\]:)")
"""What log viewers put before the label: counters, names."""

_WRAPPERS = ("log", "message", "msg", "textPayload", "MESSAGE")


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


def records(raw: bytes, number: int, now: float) -> Iterator[Line]:
    """The records of one line: one as a rule, several when ranks or a progress bar wrote into one another."""
    text = raw[:LONGEST].decode("utf-8", "replace")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    text = _CONTROLS.sub("", text).rstrip("\r\n")
    first = _unlabel(text, number, now)
    pieces = [piece for piece in _SPLIT.split(first.text) if piece] if len(first.text) > 24 else [first.text]
    if len(pieces) <= 1:
        yield first
        return
    yield first._replace(text=pieces[0])
    for piece in pieces[1:]:
        line = _unlabel(piece, number, now)
        stream = line.stream if line.stream != Stream() else first.stream
        yield line._replace(stream=stream, at=line.at if line.at is not None else first.at, labelled=True)


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
    host, tag = "", ""
    start = text
    if text.startswith("{"):
        text, at = _unwrap(text, now)
    quoted = _QUOTED.match(text) if text.startswith("> ") else None
    if quoted is not None:
        text = text[quoted.end() :].lstrip(" ")
    for _ in range(8):
        stamped = _STAMPED.match(text)
        if stamped is not None:
            found = times.find(stamped.group(), now)
            at = found.at if found is not None else at
            text = text[stamped.end() :]
            continue
        label = _label(text)
        if label is None:
            junk = _JUNK.match(text) if "[rank" in text[:60] else None
            if junk is None or not junk.end():
                break
            text = text[junk.end() :]
            continue
        length, what, value, extra = label
        text = text[length:]
        if what == "rank":
            rank = int(value)
        elif what == "local":
            local = int(value)
        elif what == "host":
            host = value
        elif what == "ray":
            pid, host, tag = int(value), extra or host, value
        else:
            tag = value or tag
    return Line(number, text, Stream(rank, local, host, tag), at, pid, text is not start)


def _label(text: str) -> Optional[Tuple[int, str, str, str]]:
    """(length, what it names, value, more) of the label in front of a text."""
    first = text[:1]
    if first == "[":
        match = _ROLE.match(text)
        if match is not None:
            return match.end(), "rank" if match.group(1).lower() == "rank" else "local", match.group(2), ""
        match = _MPI.match(text)
        if match is not None:
            return match.end(), "rank", match.group(1), ""
        match = _POD.match(text)
        return None if match is None else (match.end(), "tag", match.group(1), "")
    if first == "(":
        match = _RAY.match(text)
        return None if match is None else (match.end(), "ray", match.group(1), match.group(2) or "")
    if first == "|":
        match = _PIPED.match(text)
        return None if match is None else (match.end(), "tag", "", "")
    if first.isdigit() or first == " ":
        match = _TASK.match(text)
        return None if match is None else (match.end(), "rank", match.group(1), "")
    if not first.isalpha():
        return None
    match = _RANK.match(text)
    if match is not None:
        return match.end(), "rank", match.group(1), ""
    match = _CRI.match(text) or _LOGGER.match(text)
    if match is not None:
        return match.end(), "tag", "", ""
    match = _COMPOSE.match(text)
    if match is not None:
        return match.end(), "tag", match.group(1), ""
    match = _HOST.match(text)
    if match is not None and re.search(r"[\d.-]", match.group(1)) and not _NO_HOST.match(match.group(1)):
        return match.end(), "host", match.group(1), ""
    return None


def _unwrap(text: str, now: float) -> Tuple[str, Optional[float]]:
    """What a container's or a structured logger's JSON line wraps, and its time."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text, None
    if not isinstance(document, dict):
        return text, None
    inner: List[str] = [document[name] for name in _WRAPPERS if isinstance(document.get(name), str)]
    if not inner:
        return text, None
    at: Optional[float] = None
    for name in ("time", "timestamp", "ts", "@timestamp", "asctime"):
        value = document.get(name)
        found = times.find(value, now) if isinstance(value, str) else None
        if found is not None:
            at = found.at
            break
    return inner[0].rstrip("\r\n"), at
