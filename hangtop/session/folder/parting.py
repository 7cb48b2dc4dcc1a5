"""The parting words of a log: one of its last lines that tells of a failure, in words that no family of lines knows.

Only its end is looked at, after the fact: what a program says before it goes on means nothing. What comes of it is
``log.error`` with ``told`` = ``words``, the least of the hearsay.
"""

from __future__ import annotations

import re

from collectors.node.logs.families import errors, nodes, telemetry
from collectors.node.logs.lines import counters, line, whose
from collectors.node.logs.parser import LogParser
from collectors.node.logs.records import exceptions
from collectors.samples.logs import LogEvent
from collectors.samples.values import Value

LAST = 4
"""Lines at the end that are looked at, empty ones apart."""
_AFTER = (
    r"(?=\s{0,4}(?:$|[.,:;!)\]'\"]|\((?!\w{1,12}\) ?[\d.])"
    r"|(?:to|with|on|at|after|in|for|because|while|when|during|and|due|by|from|as|un\w{1,20}|again|too)\b))"
)
"""What follows a verb that is the line's own, and not one that describes a thing: ``3 failed jobs are listed``."""
_FAILURE = re.compile(
    r"(?i)(?<![\w@-])(?:"
    rf"(?:failed|fails|crash(?:ed|es)|panick?(?:ed)?|aborts?|aborted){_AFTER}"
    r"|(?:was|were|been|being|got|is|are) (?:\w{1,16} )?(?:killed|corrupt(?:ed)?)\b|killed(?: by\b|\s{0,4}$)"
    r"|corrupted(?=\s{0,4}(?:$|[.,:;!]))"
    r"|aborting\b(?! is\b)(?=\s{0,4}(?:$|[.,:;!]| (?:the|this|all|due|after|because|now)\b))"
    r"|(?:fatal|errors?|failure|abort|panic)(?: \(\w{1,20}\))?[:!](?= \S)|error,(?= \S)"
    r"|error(?: (?:msg|message|text|reason|string|code))?[:=](?= [^\s\d])"
    r"|failure of\b|(?:error|failure|errors) (?:in|on|while|when|during|from|at|has|have|was|were|occurr?ed"
    r"|encountered|due|trying|(?!feedback|handling|reporting|bar)(?:\w{2,12}ing))\b"
    r"|(?:an?|the|some|unknown|unexpected|internal|fatal|system|bus|i/o|input/output|out of memory|syntax|parse"
    r"|network) (?:\w{1,16} )?(?:error|errors|failure|exception)(?=\s{0,4}(?:$|[.,;!)]|near\b))"
    r"|(?:unhandled|uncaught) (?:\w{1,16} )?(?:exception|rejection|failure|error)\b"
    r"|\*{3} [^\r\n*]{0,300}\bError \d{1,3}|unexpectedly"
    r"|Connection (?:refused|reset by peer|timed out)"
    r"|Broken pipe|Permission denied|Stale (?:NFS )?file handle|Cannot allocate memory|No space left on device"
    r"|Too many open files|Resource temporarily unavailable|No route to host|Network is unreachable|Exec format error"
    r"|Disk quota exceeded|Transport endpoint is not connected|command not found|Bad address|Device or resource busy"
    r"|cannot open shared object file|can't open file|driver version is insufficient)(?![\w-])"
)
"""Words by which something fails, as against those that name failures; and those of the system's own error numbers."""
_NONE = re.compile(
    r"(?i)\b(?:no|zero|without|ignor\w{1,8}|if any|in case of) (?:\w{1,20} ){0,2}(?:errors?"
    r"|failures?|exceptions?)\b|\b0 (?:errors?|failed|failures?|killed)\b|\bkilled 0\b"
    r"|\bfailed\s{2,20}0\b"
    r"|\b(?:errors?|failed|failures?|corrupt\w{0,4})\b\s{0,4}[:=]\s{0,4}(?:[\d.+-]|none|null"
    r"|false|\[\]|\"\"|$)|\bnumber of\b"
    r"|\b(?:retry|retries|retrying|will be|fall(?:ing|s)? ?back|skip\w{0,5}|instead|optional"
    r"|deprecat|disabl|attempt|warn|dlopen|please make sure|please install)"
    r"|\berrors? (?:traces?|reports?|logs?|files?|polic\w{1,3}|handl\w{2,5}|codes?|rates?|bars?|margins?"
    r"|corrections?|budgets?|metrics?|checks?)\b"
    r"|\b(?:please|to) (?:submit|report|file|open|see|refer|visit)\b|bug reports?\b"
    r"|\bno output PDF file produced\b"
    r"|(?<!\] )\berrors?\b\s{0,4}\d|\b(?:loss|lr|acc(?:uracy)?|it/s)\b[^\r\n]{0,12}\d"
    r"|[:=]\s{0,20}[<(\"'\[{]{0,2}(?:none|null|nil|n/?a|no|never|false|-|empty)[>)\"'\]}]{0,3}(?: so far)?\s{0,4}$"
    r"|\b(?:errors?|fail\w{1,6}|abort\w{0,3}|crash\w{0,3}|killed|corrupt\w{0,4})\b[\w \"']{0,24}[:=]\s{0,20}"
    r"(?:none|no|0|false)\s{0,4}(?:$|[,;])"
    r"|\b(?:download|creat|build|us)ing (?:it|one|an?|the)\b|\bfailed before\b"
    r"|\b(?:or|and|of|socket) errors?(?::? \w+ \d|(?: \w+)? (?:from|in)\b)|\bcheck(?:s|ing)? (?:for|if|whether)\b"
    r"|\*{3} Aborted at \d{6,12} \(unix time\)|\.so\b|not (?:be )?(?:installed|supported|available|enabled)|tolerat"
)
"""Words that take it back: nothing failed, or it goes on without."""
_LEVEL = re.compile(
    r"^(?:[^\r\n]{0,100}?[\s\[|:(-])?(?:INFO|DEBUG|TRACE|NOTICE|WARN(?:ING)?|Info|Debug|\w{0,40}Warning|info|debug|warning|level=(?:info|debug|warn\w{0,3}))\b"
    r"|^\[ {0,6}\d{1,9}\.\d{1,9}\]|\bkernel: | NCCL (?:INFO|WARN)"
    r"|^[\s:]{0,4}\[?[WID](?:\d{3,8})? |^#|^\s{0,20}(?:raise |except |assert |return |def |if "
    r"|for "
    r"|import |(?:echo|printf) [\"'$]|p?kill -)|^ {0,4}(?:File \"|\d+ )|[│|]\s*$"
)
"""Levels below an error, lines of the kernel and of NCCL, that have readers of their own; comments, tables, source."""
_ASKED = re.compile(
    rb"\bSIG(?:TERM|INT)\b[^\r\n]{0,60}\b(?:received|[Dd]raining|[Ss]hutting down)"
    rb"|\b[Rr]eceived (?:a )?(?:termination )?(?:signal[ :=]{1,3})?SIG(?:TERM|INT)\b|\bsignal=SIG(?:TERM|INT)\b"
)
"""A program's word that somebody told it to end: what its parts say as they go down follows from that."""
SHUTDOWN = 40
"""Lines above in which such a word is looked for."""
CALM, BEFORE, BEHIND, ABOVE = 8, 10, 24, 400
"""Lines without trouble behind the same words above, letters around the verb that are the same, lines looked at."""
_DIGITS = re.compile(r"\d+")
_GAP = re.compile(r"\S(?: {2,}|\t)(?=\S)")
_COLUMNS = 5
"""Wide gaps in a line from which on it is a row of a table, or its head, of which a column is named ``error``."""


def _outlived(text: str, above: list[bytes]) -> bool:
    """Whether the same had been said before, and the program went on: of parts of it that fail, as a suite's."""
    found = _FAILURE.search(text)
    if found is None:
        return False
    words = _DIGITS.sub("#", counters.plain(text[max(0, found.start() - BEFORE) : found.end() + BEHIND].encode()))
    calm = 0
    for raw in reversed(above[-ABOVE:]):
        row = counters.plain(raw)
        if words in _DIGITS.sub("#", row):
            if calm >= CALM:
                return True
        elif row.strip() and not counters.is_trouble(row):
            calm += 1
    return False


def parting(parser: LogParser, now: float) -> LogEvent | None:
    """The last line, of the few at the end, that tells of a failure; None where a step comes behind it."""
    rows = parser.tail.rstrip(b"\n").split(b"\n")
    behind = 0
    for back, raw in enumerate(reversed(rows)):
        if not raw.strip():
            continue
        behind += 1
        record = next(line.records(raw, parser.line - 1 - back, now), None)
        if behind > LAST or record is None or _is_step(raw) or nodes.DAEMONS.match(record.program):
            return None
        text = record.text.strip()
        if behind > 1 and text.startswith("error: "):
            continue  # a command's, behind which a script went on
        if len(text) >= 12 and " " in text and _fails(text):
            above = rows[: len(rows) - back - 1]
            if any(map(_ASKED.search, above[-SHUTDOWN:])) or _outlived(text, above):
                return None
            what = exceptions.signature(text)
            stream = record.stream
            named = whose.of(text)
            data: dict[str, Value] = {
                "told": "words", "message": text[:300], "signature": what, "consequence": exceptions.follows(text),
            }  # fmt: skip
            if named.rank is not None:
                data["about"] = named.rank
            return LogEvent(
                "log.error", line.moment(record, now), stream.rank, stream.host or named.host, record.pid or named.pid,
                parser.source,
                record.number, text[:4000],
                data,
            )  # fmt: skip
    return None


def _fails(text: str) -> bool:
    head = text[:400]
    if sum(1 for _ in _GAP.finditer(head)) >= _COLUMNS:
        return False
    light = (
        telemetry.TRACKERS.match(head)
        or _NONE.search(head)
        or errors.LIGHT.search(head)
        or errors.TRAILED.search(text[-400:])
    )
    return bool(_FAILURE.search(head)) and not _LEVEL.search(head) and not light


def _is_step(raw: bytes) -> bool:
    text = counters.plain(raw)
    seen = counters.counted(text)
    return seen is not None and seen.kind != counters.BARE and not counters.is_trouble(text)
