"""One record of a log without what launchers put in front of it: labels, times, escape codes, wrappers."""

from __future__ import annotations

import json
import re
from typing import Iterator, List, NamedTuple, Optional, Tuple

from collectors.node.logs import quoting, times

LONGEST = 16384
"""Bytes of one record that are looked at; what a longer one has after them is skipped."""
SEEN = 4096
"""Characters of a record that the families see, its labels gone: of a longer one the beginning and the end.

A pattern that looks for the end of something from each of its beginnings needs the square of the length: for so many
characters some milliseconds. It is the bound by which every pattern of the families is tested.
"""
_AT_END = 1024
"""Of those, characters of the end."""

_ROLE = re.compile(r"\[([A-Za-z_]\w*?)[ =:]?(\d{1,7})\]:[ ]?")
_MPI = re.compile(r"\[(?:\d+,)?(\d{1,7})\](?:\[[^\]]*\])?<std(?:out|err|diag)>:?[ ]?")
_TASK = re.compile(r"[ ]{0,6}(\d{1,6}):(?: (?!\[[A-Za-z]\w{0,60}[./][\w./-]{0,200}[,\]])|$)")
"""Not Horovod's list of ranks: ``1: [allreduce.conv1.weight, …``."""
_HOSTED = re.compile(r"\[([A-Za-z][\w-]*(?:\.[\w-]+)*):(0|[1-9]\d{0,3})\][: ][ ]?")
"""``[node3:17] ``: a host and its rank. Open MPI's process ids have five digits at least."""
_OPEN_MPI = re.compile(
    r"\[([A-Za-z][\w-]*(?:\.[\w-]+)*):(\d{1,9})\] (?=\*\*\* |Signal(?: code)?: |Failing at address: "
    r"|\[ ?\d{1,3}\] |Local abort before|PMIX ERROR|\[\[\d{1,9},\d{1,9}\]|(?:ORTE|OPAL|PRTE)_ERROR|mca[_:])"
)
"""A host and a process id, in front of what Open MPI says of a signal or an error."""
_UCX = re.compile(r"\[([A-Za-z][\w-]*(?:\.[\w-]+)*):(\d{1,9}) ?:\d{1,9}(?::\d{1,9})?\] {1,8}(?=Caught signal )")
"""The same of UCX: host, process, threads."""
_STAMPED_MPI = re.compile(
    r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?:19|20)\d\d"
    r"(?=\[[\d,]{1,20}\]<std|<std)(?:<std(?:out|err|diag)>: ?)?"
)
"""What ``mpirun --timestamp-output`` puts in front, with and without the rank."""
_XLA_DIST = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3}) \[\d{1,6}\] ")
"""The address and the number of a host of a TPU pod, as torch_xla's launcher puts them in front."""
_SOURCE = re.compile(r"\.(?:py|cc|cpp|cxx|cu|c|h|hpp|cuh|rs|go|js|java|sh)$")
_NUMBERED = re.compile(r"\[(\d{1,6})/([A-Za-z][\w.-]{0,60}) \((\d{1,9})\)\]:?[ ]?")
"""``[3/train (4711)] ``: rank, name and process id."""
_RANK = re.compile(r"(?:[Rr]ank|RANK)[ =:_-]{0,3}(\d{1,7})[ ]?[:|>][ ]?")
_RAY = re.compile(r"\((?:[\w.:<>-]+ )?pid=(\d{1,10})(?:, ip=([\w.:-]+))?\)[ ]?")
_LOGGER = re.compile(
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:\d\d-\d\d \d\d:\d\d:\d\d )?(?:\[[\w./-]+\.py:\d+\]|[\w.-]+\.py:\d+\]) ?"
)
_NAMED_LOGGER = re.compile(r"(?:- )?[\w.]{1,60} - (?:DEBUG|INFO|WARNING|ERROR|CRITICAL) - (?=\[(?:rank|default)\d)")
"""A logger's name and level, in front of what a program says that it runs."""
_PREPENDED = re.compile(r"\[(\d{1,6})\] (?=Traceback \(|  |[\w.]{1,80}(?:Error|Exception)\b)")
"""Intel MPI's ``-prepend-rank``; elsewhere a number in brackets may be anything."""
_PIPED = re.compile(r"\| ?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) *\| (?:stderr|stdout) \| ?")
_COMPOSE = re.compile(r"([A-Za-z][\w.-]*)[ ]+\| ")
_POD = re.compile(r"\[pod/([^/\]]+)/[^\]]*\] ")
_CRI = re.compile(r"(?:stdout|stderr)(?: [FP] |: )")
_HOST = re.compile(r"([A-Za-z][\w-]*(?:\.[\w-]+)*): ")
_NO_HOST = re.compile(
    r"(?i)[\w.-]*(?:error|exception|failure|timeout|died|crashed|killedworker|warning|interrupt"
    r"|exit|info|debug|critical|traceback|failures|note|hint|kernel)$"
    r"|(?:nvidia|enroot|flux|containerd|docker|torch|ib|mpi|ucx|conda|apt|dpkg|systemd|modprobe|ld)-[a-z][a-z-]*$"
    r"|(?:epoch|step|loss|iter|batch|(?-i:GPU)|cuda|torch|nccl|layer|rank|line|v|version|python|srun|slurm)[\w.-]*$|gpu\d?$|E[A-Z0-9]\d{4}$"
)
_FUNCTION = re.compile(r"[a-z]_[a-z]")
"""What names of functions have, and names of hosts may not."""
_CLASS = re.compile(r"(?:^|\.)[A-Z][a-z]{1,40}(?:[A-Z][a-z]{1,40}){1,6}$|\.(?:exc|exceptions?|errors?)\.")
"""Names of classes, and of modules of exceptions."""
_STAMPED = re.compile(
    r"[\[(]?(?:"
    + "|".join(re.sub(r"\?P<\w+>", "?:", p) for p in (times.ISO, times.AMERICAN))
    + r"|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?=\]? \[(?:rank|default)\d))[\])]?[ ]?"
)

_SPLIT = re.compile(
    r"(?<=[^\s\]:>|])(?=\[(?:rank|default)\d+\]:)"
    r"|(?<=it/s\])(?=\[rank\d+\]:)|(?<=s/it\])(?=\[rank\d+\]:)"
    r"|(?<=.)(?=(?<![\w.<>-])[\w.<>-]+:\d+:\d+ \[\d+\] (?:NCCL|\S+:\d+ (?:\(\w+\) )?NCCL))"
    r"|(?<=[^\s\[:\]])(?=\[[EWIF]\d{3,4} \d\d:\d\d:\d\d|\[[EWIF] \w+\.cpp:\d+\])"
    r"|(?<=[^\s\"'])(?=Traceback \(most recent call last\):\s*$)"
)

_BAR = re.compile(r" {0,4}(?:\| {1,6}){0,5}\| ?(?=(?:19|20)\d\d[-/]|\[(?:rank|default)\d)")
"""What tables of log viewers put between their columns."""
_COLUMN = re.compile(r"\| ?")
_SYSLOG = re.compile(
    r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?P<host>[A-Za-z][\w.-]{0,100}) (?!kernel)[\w./-]{1,80}(?:\[\d{1,9}\])?: "
)
"""The journal's time, host and program."""
_DATED = re.compile(
    r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?= {2}\S| {4}|Traceback \(|[\w.]{1,80}(?:Error|Exception): )"
)
"""A time without a zone or a host, in front of a traceback's lines."""
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
    text = quoting.cleaned(text)
    first = _unlabel(text, number, now)
    pieces = [piece for piece in _SPLIT.split(first.text) if piece] if len(first.text) > 24 else [first.text]
    if len(pieces) <= 1:
        yield first if len(first.text) <= SEEN else first._replace(text=seen(first.text))
        return
    yield first._replace(text=seen(pieces[0]))
    for piece in pieces[1:]:
        line = _unlabel(piece, number, now)
        stream = line.stream if line.stream != Stream() else first.stream
        at = line.at if line.at is not None else first.at
        yield line._replace(text=seen(line.text), stream=stream, at=at, labelled=True)


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
    host, tag = "", ""
    text = start = quoting.unquoted(text)
    if text.startswith("{"):
        text, at = _unwrap(text, now)
    text, dated, host = _dated(text, now)
    at = dated if dated is not None else at
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
        elif what in ("hosted", "numbered"):
            rank = int(value)
            host, pid = (extra, pid) if what == "hosted" else (host, int(extra))
        elif what in ("ray", "process"):
            pid, host, tag = int(value), extra or host, value
        else:
            tag = value or tag
    return Line(number, text, Stream(rank, local, host, tag), at, pid, text is not start)


def _dated(text: str, now: float) -> Tuple[str, Optional[float], str]:
    """A line without the time that a journal puts in front, that time, and the host."""
    journal = _SYSLOG.match(text)
    stamp = journal or _DATED.match(text)
    if stamp is None:
        return text, None, ""
    found = times.find(stamp.group(), now)
    return text[stamp.end() :], None if found is None else found.at, "" if journal is None else journal.group("host")


def _label(text: str) -> Optional[Tuple[int, str, str, str]]:
    """(length, what it names, value, more) of the label in front of a text."""
    first = text[:1]
    if first == "[":
        return _bracketed(text)
    if first == "(":
        match = _RAY.match(text)
        return None if match is None else (match.end(), "ray", match.group(1), match.group(2) or "")
    if first == "|":
        match = _PIPED.match(text)
        return None if match is None else (match.end(), "tag", "", "")
    if first.isdigit() or first == " ":
        worker = _XLA_DIST.match(text)
        if worker is not None:
            return worker.end(), "host", worker.group(1), ""
        match = _TASK.match(text)
        return None if match is None else (match.end(), "rank", match.group(1), "")
    if first == "-":
        match = _NAMED_LOGGER.match(text)
        return None if match is None else (match.end(), "tag", "", "")
    if not first.isalpha():
        return None
    match = _RANK.match(text)
    if match is not None:
        return match.end(), "rank", match.group(1), ""
    match = _CRI.match(text) or _LOGGER.match(text) or _NAMED_LOGGER.match(text) or _STAMPED_MPI.match(text)
    if match is not None:
        return match.end(), "tag", "", ""
    match = _COMPOSE.match(text)
    if match is not None:
        return match.end(), "tag", match.group(1), ""
    match = _HOST.match(text)
    if match is not None and _is_host(match.group(1)):
        return match.end(), "host", match.group(1), ""
    return None


def _bracketed(text: str) -> Optional[Tuple[int, str, str, str]]:
    match = _ROLE.match(text)
    if match is not None:
        return match.end(), "rank" if match.group(1).lower() == "rank" else "local", match.group(2), ""
    match = _MPI.match(text) or _PREPENDED.match(text)
    if match is not None:
        return match.end(), "rank", match.group(1), ""
    match = _NUMBERED.match(text)
    if match is not None:
        return match.end(), "numbered", match.group(1), match.group(3)
    match = _OPEN_MPI.match(text) or _UCX.match(text)
    if match is not None:
        return match.end(), "process", match.group(2), match.group(1)
    match = _HOSTED.match(text)
    if match is not None and _is_host(match.group(1)) and not _SOURCE.search(match.group(1)):
        return match.end(), "hosted", match.group(2), match.group(1)
    match = _POD.match(text)
    return None if match is None else (match.end(), "tag", match.group(1), "")


def _is_host(name: str) -> bool:
    """Whether a word in front of a colon may be a host's name."""
    if _NO_HOST.match(name) or _FUNCTION.search(name) or _CLASS.search(name):
        return False
    return bool(re.search(r"[\d.-]", name))


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
