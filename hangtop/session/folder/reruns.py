"""Runs by hand into one log: a command at a prompt once more, and a first line right behind what ended a run."""

from __future__ import annotations

import re
from collections.abc import Sequence

from collectors.node.logs.parser import LogParser
from collectors.samples.logs import LogEvent
from hangtop.session.folder.again import UNCAUGHT

LETTERS, BEHIND = 12, 3
"""Letters of a first line that is no mere mark, and lines behind it at least."""
_LONGEST = 400
_COMMAND = re.compile(
    r"^\s{0,4}(?:\([\w.-]{1,40}\) ?)?(?:\[?[\w.-]{1,40}@[\w.-]{1,80}[: ]?[^\r\n$#>%]{0,80}\]?\s?)?[$#] {1,2}"
    r"(?:[A-Z][A-Z0-9_]{1,60}=\S{0,200} {1,4}){0,12}"
    r"(?:torchrun|accelerate|deepspeed|mpirun|mpiexec|srun|horovodrun|composer|colossalai|(?:\S{1,200}/)?python[\d.]{0,5}"
    r"|bash|sh|(?=\./\S))(?P<words>[^\r\n]{1,300})$"
)
"""A program that somebody started at a shell's prompt; what looks at files is none of them."""
_SCRIPT = re.compile(r"(?:^|[ /])(?P<script>[\w.-]{1,100}\.(?:py|sh))(?= |$)|(?:^| )-m (?P<module>[\w.]{1,100})(?= |$)")
"""What is run: two commands that run the same are two runs."""
_STAMP = re.compile(r"^[\[(]?\d{1,4}[-/]\d{1,2}[-/]\d{1,4}[T ][\d:.,]{5,20}Z?[\])]? {0,4}")
_OUTERMOST = re.compile(r"File \"(?P<program>[^\"\r\n<]{1,400})\", line \d{1,7}, in <module>")
_SYNTAX = ("SyntaxError", "IndentationError", "TabError")
_DIGITS = re.compile(r"\d+")
_LETTER = re.compile(r"[A-Za-z]")
_TROUBLE = re.compile(r"(?i)traceback|^\s*file \"|error|exception|fail|abort|fatal|kill|signal|critical|warn")


def begun(events: Sequence[LogEvent], head: bytes, parser: LogParser) -> int:
    """The line at which the last run by hand begins; 0 where there was but one, or nothing tells."""
    rows = parser.tail.split(b"\n")
    first = parser.line - parser.tail.count(b"\n")
    return max(_at_a_prompt(head, rows, first), _behind_an_end(events, head, rows, first))


def before_an_interrupt(events: Sequence[LogEvent]) -> int:
    """The line of the exception by which a launcher had ended before the run that somebody's Control-C ended; else 0.

    Its own tracebacks bear no label, those of its ranks do, and go through another program: it can end but once a run.
    """
    ends = [(event, match.group("program")) for event in events if (match := UNCAUGHT.match(_bare(event)))]
    own = [(event, program) for event, program in ends if event.rank is None]
    of_ranks = {_program(event) for event in events if event.kind == "python.exception" and event.rank is not None}
    if not own or not of_ranks or own[-1][0].data.get("signature") != "interrupt" or own[-1][1] in of_ranks:
        return 0
    return max((event.line for event, program in own[:-1] if program == own[-1][1]), default=0)


def before_it_compiled(events: Sequence[LogEvent]) -> int:
    """The line of the last exception of a program that did not compile, where the same raised another later; or 0.

    What does not compile does so in no process: who raised the later one was started when it had been mended.
    """
    own = [event for event in events if event.kind == "python.exception" and event.rank is None]
    ends = [(event, program) for event in own if (program := _program(event))]
    lines = [
        event.line
        for at, (event, program) in enumerate(ends)
        if event.data.get("type") in _SYNTAX
        and any(later == program and other.data.get("type") not in _SYNTAX for other, later in ends[at + 1 :])
    ]
    return max(lines, default=0)


def _program(event: LogEvent) -> str:
    found = _OUTERMOST.search(event.text)
    return "" if found is None else found.group("program")


def _at_a_prompt(head: bytes, rows: Sequence[bytes], first: int) -> int:
    """The last command at a prompt, of a program that had been started at one before."""
    told = [(first + at, script) for at, row in enumerate(rows) if (script := _command(row))]
    opening = [script for row in head.split(b"\n")[: max(0, first - 1)] if (script := _command(row))]
    if not told:
        return 0
    line, script = told[-1]
    before = [*opening, *(other for _, other in told[:-1])]
    ended = sum(1 for row in rows[line - first + 1 :] if row.strip())
    return line if script in before and ended >= BEHIND else 0


def _command(row: bytes) -> str:
    """The script or module that a command at a prompt runs; empty for other lines."""
    command = _COMMAND.match(row[:_LONGEST].decode("utf-8", "replace"))
    script = None if command is None else _SCRIPT.search(command.group("words"))
    return "" if script is None else script.group("script") or script.group("module")


def _behind_an_end(events: Sequence[LogEvent], head: bytes, rows: Sequence[bytes], first: int) -> int:
    """The last place where the log's first line stands again, each time right behind what ended a program.

    Several ranks of one job write it one after the other, and not behind what ended the one before.
    """
    opening = _words(next((row for row in head.split(b"\n") if row.strip()), b""))
    if len(_LETTER.findall(opening)) < LETTERS or _TROUBLE.search(opening):
        return 0
    again = [at for at, row in enumerate(rows) if first + at > 1 and _words(row) == opening]
    ends = {_end(event) + 1 for event in events if event.kind == "python.exception" and UNCAUGHT.match(_bare(event))}
    behind = [first + at for at in again if first + _above(rows, at) + 1 in ends]
    if not again or len(behind) < len(again):
        return 0
    return behind[-1] if sum(1 for row in rows[again[-1] + 1 :] if row.strip()) >= BEHIND else 0


def _above(rows: Sequence[bytes], at: int) -> int:
    """The last place above that is not empty."""
    return next((place for place in range(at - 1, -1, -1) if rows[place].strip()), -1)


def _bare(event: LogEvent) -> str:
    """The text of an exception from its head on."""
    at = event.text.find("Traceback (most recent call last):")
    return event.text[max(at, 0) :]


def _end(event: LogEvent) -> int:
    return event.line + event.text.rstrip("\n").count("\n")


def _words(row: bytes) -> str:
    text = row[:_LONGEST].decode("utf-8", "replace").strip()
    return _DIGITS.sub("#", _STAMP.sub("", text))
