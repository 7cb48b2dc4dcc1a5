"""One record of a log without what stands in front: labels of launchers and loggers, times, escape codes, JSON."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Iterator, NamedTuple, Optional, Tuple

from collectors.node.logs import attribution, times

LONGEST = 16384
"""Bytes of one record that are looked at; what a longer one has after them is skipped."""
SEEN = 4096
"""Characters of a record that the rules see, its labels gone: of a longer one the beginning and the end. It bounds the
time that a pattern may take."""
_AT_END = 1024
"""Of those, characters of the end."""
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78cDEHM])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_STAMPED = re.compile(
    r"[\[(]?(?:"
    + "|".join(re.sub(r"\?P<\w+>", "?:", pattern) for pattern in (times.ISO, times.AMERICAN))
    + r"|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?=\]? \[(?:rank|default)\d))[\])]?[ ]?"
)
_SPLIT = re.compile(
    r"(?<=[^\s\]:>|])(?=\[(?:rank|default)\d+\]:)"
    r"|(?<=it/s\])(?=\[rank\d+\]:)|(?<=s/it\])(?=\[rank\d+\]:)"
    r"|(?<=.)(?=(?<![\w.<>-])[\w.<>-]+:\d+:\d+ \[\d+\] (?:NCCL|\S+:\d+ (?:\(\w+\) )?NCCL))"
    r"|(?<=[^\s\[:\]])(?=\[[EWIF]\d{3,8} \d\d:\d\d:\d\d|\[[EWIF] \w+\.cpp:\d+\])"
    r"|(?<=[^\s\"'])(?=Traceback \(most recent call last\):\s*$)"
)
"""Where ranks, or a progress bar, wrote into one another's line."""
_SYSLOG = re.compile(
    r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d))"
    r" (?P<host>[A-Za-z0-9][\w.-]{0,100}) (?P<program>[A-Za-z][\w./-]{0,80})(?:\[\d{1,9}\])?: "
)
"""A journal's time, host and program."""
_LABELS = (
    # torch's and torchrun's [rank3]: and [default3]:
    r"\[[Rr]ank[ =:]?(?P<rank>\d{1,7})\]:[ ]?",
    r"\[[A-Za-z_]\w*?[ =:]?(?P<local>\d{1,7})\]:[ ]?",
    r"(?:[Rr]ank|RANK)[ =:_-]{0,3}(?P<rank>\d{1,7})[ ]?[:|>][ ]?",
    # srun --label, mpirun --tag-output
    r"[ ]{0,6}(?P<rank>\d{1,6}):(?: |$)",
    r"\[(?:\d+,)?(?P<rank>\d{1,7})\](?:\[[^\]]*\])?<std(?:out|err|diag)>:?[ ]?",
    # Ray's and vLLM's (name pid=7, ip=10.0.0.7)
    r"\((?P<front>(?:[\w.:<>-]+,? )*?)pid=(?P<pid>\d{1,10})(?:, ip=(?P<host>[\w.:-]+))?\)[ ]?",
    # a logger's level, time and place
    (r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:\d\d-\d\d \d\d:\d\d:\d\d )?"
     r"(?:\[[\w./-]+\.py:\d+\]|[\w.-]+\.py:\d+\]) ?"),
    # kubelet's files, kubectl logs --prefix, stern, Docker Compose
    r"(?:stdout|stderr)(?: [FP] |: )",
    r"\[pod/(?P<host>[^/\]]+)/[^\]]*\] ",
    r"(?P<host>(?!step|epoch|iter|batch)[a-z][a-z0-9_.-]{0,80}[a-z0-9][-_]\d{1,4})[ ]+\| ",
    r"(?P<tag>[A-Za-z][\w.-]*)[ ]+\| ",
    # pdsh, mpirun of a cloud: a host by its address, or by a name with a digit, a dot or a dash
    r"(?P<host>\d{1,3}(?:\.\d{1,3}){3}): ",
    r"(?P<host>[A-Za-z][\w-]*(?:\.[\w-]+)*): (?=\[(?:rank|default)\d{1,7}\]:|\[[DIWEF]\d{3,8} \d\d:)",
    r"(?P<host>[A-Za-z](?=[\w.-]*[\d.-])[\w-]*(?:\.[\w-]+)*): ",
)  # fmt: skip
_NO_HOST = re.compile(
    r"(?i)[\w.-]*(?:error|exception|failure|timeout|died|warning|interrupt|exit|info|debug|critical|traceback|note|kernel)$"
    r"|(?:nvidia|enroot|pyxis|docker|torch|ib|mpi|ucx|conda|systemd)-[a-z][a-z-]*$"
    r"|gpu\d?$|(?:epoch|step|loss|iter|batch|(?-i:GPU)|cuda|torch|nccl|layer|rank|line|v|version|python|srun|slurm)[\w.-]*$"
    r"|[\w.-]{1,80}\.(?:sh|bash|slurm|sbatch|py|exe|out|bin|service)$|[\w.]*(?-i:[a-z]_[a-z]|[a-z](?:Error|Exception))"
    r"|(?-i:(?:[\w.]*\.)?[A-Z][a-z]{1,40}(?:[A-Z][a-z]{1,40}){1,6}$)|[\w.]*\.(?:exc|exceptions?|errors?)\."
)
"""What stands in front of a colon and names no host: a level, a program, a class, a function, a counter."""


class LogWriter(NamedTuple):
    """Who wrote a line, as far as its labels tell: lines of one stream follow one another."""

    rank: Optional[int] = None
    local_rank: Optional[int] = None
    host: str = ""
    tag: str = ""


class Line(NamedTuple):
    """One record. ``text`` keeps the indentation that followed the labels."""

    number: int
    text: str
    stream: LogWriter
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
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    first = _unlabelled(_CONTROLS.sub("", text).rstrip("\r\n"), number, now)
    if len(first.text) <= 24:
        yield first
        return
    if "\n" in first.text:  # of a message in JSON
        yield from (first._replace(text=seen(piece)) for piece in first.text.split("\n"))
        return
    pieces = [piece for piece in _SPLIT.split(first.text) if piece]
    if len(pieces) <= 1:
        yield first if len(first.text) <= SEEN else first._replace(text=seen(first.text))
        return
    yield first._replace(text=seen(pieces[0]))
    for piece in pieces[1:]:
        line = _unlabelled(piece, number, now)
        named = line.stream != LogWriter()
        stream, pid = (line.stream, line.pid) if named else (first.stream, line.pid or first.pid)
        at = line.at if line.at is not None else first.at
        yield line._replace(text=seen(line.text), stream=stream, at=at, pid=pid, labelled=True)


def seen(text: str) -> str:
    """As much of a text as patterns may see, its middle left out."""
    return text if len(text) <= SEEN else text[: SEEN - _AT_END - 3] + " … " + text[-_AT_END:]


def moment(record: Line, now: float) -> Optional[float]:
    """Time of a record: the one in front of it, else the one that its text begins with."""
    if record.at is not None:
        return record.at
    found = times.find(record.text, now)
    return None if found is None else found.at


def _unlabelled(text: str, number: int, now: float) -> Line:
    """One record without what stands in front of it, and what this tells."""
    start, stream, at, program = text, LogWriter(), None, ""
    pid: Optional[int] = None
    warned = False
    if text.startswith("{"):
        text, at = unwrapped(text, now)
    journal = _SYSLOG.match(text)
    if journal is not None:
        found = times.find(journal.group(), now)
        at, text = at if found is None else found.at, text[journal.end() :]
        stream, program = stream._replace(host=journal.group("host")), journal.group("program")
    for _ in range(8):
        stamped = _STAMPED.match(text)
        label = stamped or _label(text)
        if label is None:
            break
        text = label.string[label.end() :]
        if stamped is not None:
            found = times.find(stamped.group(), now)
            at = at if found is None else found.at
            continue
        said = {name: value for name, value in label.groupdict().items() if value}
        if "pid" in said:
            pid = int(said["pid"])
            named = stream.rank if stream.rank is not None else attribution.rank_of("(" + said.get("front", ""))
            stream = stream._replace(rank=named, tag=said["pid"])
        stream = LogWriter(
            int(said["rank"]) if "rank" in said else stream.rank,
            int(said["local"]) if "local" in said else stream.local_rank,
            said.get("host", stream.host),
            said.get("tag", stream.tag),
        )
        warned = warned or said.get("level") == "WARNING"
    return Line(number, text, stream, at, pid, text is not start, program, warned)


@lru_cache(1)
def _labels() -> "Tuple[re.Pattern[str], ...]":
    """The labels, compiled when the first line is read."""
    return tuple(map(re.compile, _LABELS))


def _label(text: str) -> "Optional[re.Match[str]]":
    """The label in front of a text."""
    if not text or (text[0].islower() and ":" not in text[:200] and " | " not in text[:100] and "-" not in text[:80]):
        return None
    for pattern in _labels():
        match = pattern.match(text)
        said = {} if match is None else match.groupdict()
        if match is not None and ("pid" in said or not said.get("host") or not _NO_HOST.match(said["host"])):
            return match
    return None


def unwrapped(text: str, now: float) -> "Tuple[str, Optional[float]]":
    """Message and time of a container's or a structured logger's line of JSON; the line where it has no message."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    known = document if isinstance(document, dict) else {}
    said = {name: value for name, value in known.items() if isinstance(value, str)}
    message = (said.get("log") or said.get("message") or said.get("msg") or "").rstrip("\r\n")
    if not message:
        return text, None
    raised = said.get("exc_info", said.get("exception", "")).rstrip()
    stamp = times.find(said.get("time") or said.get("timestamp") or said.get("asctime") or "", now)
    return message + ("\n" + raised if raised else ""), None if stamp is None else stamp.at
