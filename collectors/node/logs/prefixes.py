"""Strips the prefix of a log line, and reads the line's writer from it.

Labels of launchers, engines and loggers, times, escape codes and JSON are removed. The process in NCCL's records is
part of the remaining text.
"""

from __future__ import annotations

import json
import re
from typing import Dict, Iterator, NamedTuple, Optional, Tuple

from collectors.node.logs import times
from collectors.node.logs.rule import number

LONGEST = 16384
"""Bytes of one line that are read; the rest is skipped."""
SEEN = 4096
"""Characters of a record, without labels, that the rules see: the beginning and end of a longer record. This bounds the
time of a pattern."""
_AT_END = 1024
"""Characters among these that come from the end."""
ESCAPES = r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78cDEHM])"
_CONTROLS = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
_SPLIT = (
    r"(?<=[^\s\]:>|])(?=\[(?:rank|default)\d+\]:)|(?<=it/s\])(?=\[rank\d+\]:)|(?<=s/it\])(?=\[rank\d+\]:)"
    r"|(?<=.)(?=(?<![\w.<>-])[\w.<>-]+:\d+:\d+ \[\d+\] (?:NCCL|\S+:\d+ (?:\(\w+\) )?NCCL))"
    r"|(?<=[^\s\[:\]])(?=\[[EWIF]\d{3,8} \d\d:\d\d:\d\d|\[[EWIF] \w+\.cpp:\d+\])"
    r"|(?<=[^\s\"'])(?=Traceback \(most recent call last\):\s*$)"
)
"""Positions at which another rank, or a progress bar, wrote into the same line."""
_DATE = "|".join(re.sub(r"\?P<\w+>", "?:", pattern) for pattern in (times.ISO, times.AMERICAN))
_LABELS = (
    # a journal's time, host and program
    (r"(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
     r"(?:Z|[+-]\d\d:?\d\d)) (?P<host>[A-Za-z0-9][\w.-]{0,100}) (?P<program>[A-Za-z][\w./-]{0,80})(?:\[\d{1,9}\])?: "),
    # SGLang's [2026-11-22 10:00:00 TP3]
    rf"\[(?P<time>{_DATE})(?: (?:DP|PP)0)* TP(?P<rank>\d{{1,4}})(?: EP\d+)?\] ?",
    # a time alone, or a launcher's time before torchrun's label
    rf"(?P<time>[\[(]?(?:{_DATE}|\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?(?=\]? \[(?:rank|default)\d))[\])]?[ ]?)",
    # torch's and torchrun's [rank3]: and [default3]:
    r"\[[Rr]ank[ =:]?(?P<rank>\d{1,7})\]:[ ]?",
    r"\[[A-Za-z_]\w*?[ =:]?(?P<local>\d{1,7})\]:[ ]?",
    r"(?:[Rr]ank|RANK)[ =:_-]{0,3}(?P<rank>\d{1,7})[ ]?[:|>][ ]?",
    # srun --label, mpirun --tag-output
    r"[ ]{0,6}(?P<rank>\d{1,6}):(?: |$)",
    r"\[(?:\d+,)?(?P<rank>\d{1,7})\](?:\[[^\]]*\])?<std(?:out|err|diag)>:?[ ]?",
    # Ray's and vLLM's (name pid=7, ip=10.0.0.7); without another parallel axis, a worker's tensor-parallel rank is its
    # rank
    (r"\((?:\w+_(?:(?:DP|PP)0_)*TP(?P<rank>\d{1,4})(?:_EP\d+)? |\w+ rank=(?P<rank_2>\d{1,4}) )?(?:[\w.:<>-]+,? )*?pid="
     r"(?P<pid>\d{1,10})(?:, ip=(?P<host>[\w.:-]+))?\)[ ]?"),
    # a logger's level, time and place
    (r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:\d\d-\d\d \d\d:\d\d:\d\d )?"
     r"(?:\[[\w./-]+\.py:\d+\]|[\w.-]+\.py:\d+\]) ?"),
    # kubelet's files, kubectl logs --prefix
    r"(?:stdout|stderr)(?: [FP] |: )",
    r"\[pod/(?P<host>[^/\]]+)/[^\]]*\] ",
    # pdsh, cloud mpirun: a host by its address, or by a name with a digit
    r"(?P<host>\d{1,3}(?:\.\d{1,3}){3}): ",
    (r"(?P<host>(?!(?:gpu|epoch|step|loss|iter|batch|cuda|torch|nccl|layer|rank|line|v|version|python|srun|slurm|nvidia)"
     r"[\d.]*:|[\w.-]{1,80}\.(?:sh|py|exe|out|bin|service):)(?-i:[a-z])[a-z0-9.-]*\d[a-z0-9.-]*): "),
    r"(?P<host>[A-Za-z][\w-]*(?:\.[\w-]+)*): (?=\[(?:rank|default)\d{1,7}\]:|\[[DIWEF]\d{3,8} \d\d:)",
)  # fmt: skip
"""Prefixes of a record; the first match is removed, repeatedly."""


class LogWriter(NamedTuple):
    """The writer of a line according to its labels; lines of the same writer form one stream."""

    rank: Optional[int] = None
    local_rank: Optional[int] = None
    host: str = ""
    pid: Optional[int] = None


class LabelledLine(NamedTuple):
    """One record. ``text`` keeps the indentation that followed the labels."""

    number: int
    text: str
    stream: LogWriter
    at: Optional[float]
    """Time in the prefix; :func:`moment` also searches the text."""
    labelled: bool
    """True if the line had a label or a time in front; the second half of a wrapped line has neither."""
    program: str = ""
    """The program in a journal's prefix."""


def records(raw: bytes, line: int, now: float) -> Iterator[LabelledLine]:
    """The records of one line: usually one, several if ranks or a progress bar wrote into the same line."""
    text = raw[:LONGEST].decode("utf-8", "replace")
    if "\x1b" in text:
        text = re.sub(ESCAPES, "", text)
    first = _unlabelled(re.sub(_CONTROLS, "", text).rstrip("\r\n"), line, now)
    of_json = "\n" in first.text
    pieces = first.text.split("\n") if of_json else [piece for piece in re.split(_SPLIT, first.text) if piece] or [""]
    yield first._replace(text=seen(pieces[0]))
    for piece in pieces[1:]:
        other = first._replace(text=piece) if of_json else _unlabelled(piece, line, now)
        stream = first.stream if other.stream == LogWriter() else other.stream
        at = first.at if other.at is None else other.at
        yield other._replace(text=seen(other.text), stream=stream, at=at, labelled=True)


def seen(text: str) -> str:
    """Shorten a text to :data:`SEEN` characters by leaving out its middle."""
    return text if len(text) <= SEEN else text[: SEEN - _AT_END - 3] + " … " + text[-_AT_END:]


def moment(record: LabelledLine, now: float) -> Optional[float]:
    """Time of a record: in its prefix, else near the beginning of its text."""
    return times.find(record.text, now) if record.at is None else record.at


def _unlabelled(text: str, line: int, now: float) -> LabelledLine:
    """Remove the prefix of a record, and return its text with the writer and time from the prefix."""
    start, at = text, None
    said: Dict[str, str] = {}
    if text.startswith("{"):
        text, at = unwrapped(text, now)
    for _ in range(8):
        label = next(filter(None, (re.match(pattern, text) for pattern in _LABELS)), None)
        if label is None:
            break
        text = label.string[label.end() :]
        fields = {name: value for name, value in label.groupdict().items() if value}
        found = times.find(fields.get("time", ""), now)
        at = at if found is None else found
        said.update(fields)
    rank = number(said.get("rank") or said.get("rank_2"))
    writer = LogWriter(rank, number(said.get("local")), said.get("host", ""), number(said.get("pid")))
    return LabelledLine(line, text, writer, at, text is not start, said.get("program", ""))


def unwrapped(text: str, now: float) -> "Tuple[str, Optional[float]]":
    """Message and time in a JSON line of a container or structured logger; the line itself if it has no message."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    of_text = document.items() if isinstance(document, dict) else ()
    said = {name: value for name, value in of_text if isinstance(value, str)}
    message = (said.get("log") or said.get("message") or said.get("msg") or "").rstrip("\r\n")
    at = times.find(said.get("time") or said.get("timestamp") or said.get("asctime") or "", now)
    return (message, at) if message else (text, None)
