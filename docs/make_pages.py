"""Write the pages that are made: the tables of ``findings.md``, ``log-events.md``, and the man page ``hangtop.1``.

``python docs/make_pages.py`` after a kind, an event rule, a log rule or a command was added or changed; tests say where
that was forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from collectors.node.logs.rules import RULES
from hangtop import __version__
from hangtop.cli.main import group
from hangtop.diagnosis.rules.engine import EventRow
from hangtop.diagnosis.rules.event_rows import EVENT_ROWS
from hangtop.diagnosis.tables.kinds import ROWS, WAITS_END, Kind

FINDINGS = Path(__file__).with_name("findings.md")
LOG_EVENTS = Path(__file__).with_name("log-events.md")
MAN_PAGE = Path(__file__).with_name("hangtop.1")
MADE = re.compile(r"<!-- made: (?P<name>\w+) -->\n.*?<!-- end -->", re.DOTALL)
"""A part of the page that is made from rows."""


def kinds() -> Iterator[str]:
    """One line a kind, by the verdict that it stands for."""
    yield from ("| kind | verdict | it means | explains |", "|---|---|---|---|")
    for row in ROWS:
        yield f"| `{row.name}` | {row.word.replace('_', ' ')} | {row.meaning} | {_explained(row)} |"


def _explained(row: Kind) -> str:
    kinds = {kind for effects in row.explains.values() for kind in effects}
    waits = ["waits"] if kinds >= WAITS_END else []
    return ", ".join([*waits, *(f"`{kind}`" for kind in sorted(kinds - WAITS_END if waits else kinds))])


def events() -> Iterator[str]:
    """One line an event rule: which lines of logs are a finding by themselves."""
    yield from ("| log event | finding | severity |", "|---|---|---|")
    for row in EVENT_ROWS:
        yield f"| {_event(row)} | `{row.kind}` | {row.severity} |"


def _event(row: EventRow) -> str:
    wanted = [f"{name} {' or '.join(map(str, values))}" for name, values in row.event.fields.items()]
    return f"`{row.event.kind}`" + (f" ({', '.join(wanted)})" if wanted else "")


def findings_page(page: str) -> str:
    """``findings.md``, with its made parts as the rows are now."""
    parts = {"kinds": kinds, "events": events}

    def anew(found: re.Match[str]) -> str:
        return "\n".join((f"<!-- made: {found['name']} -->", *parts[found["name"]](), "<!-- end -->"))

    return MADE.sub(anew, page)


_BY_CODE = (
    ("python.exception", "type, message, signature, consequence, frame, frames, launcher", "tracebacks of Python"),
    ("elastic.failure", "failed_rank, local_rank, exitcode, failed_pid, signal, root, message", "ChildFailedError"),
    ("log.end", "lines, last", "hangtop: where a log ends that nobody writes any more"),
)
_HEAD = """# Events of log lines

A line, or a record of several lines, becomes an event with a kind, a time, a rank, a host, a process, its text and
fields. `hangtop analyze` and the live view read lines by the same rules: one row each in `collectors/node/logs/rules`,
a file a subject. A row has a pattern, the fields that it gives, a sample that is its test, and the source that prints
the line. What no rule knows by name still counts: the last traceback of each rank, and a line at a level for errors
(`log.error`). This page is made from the rows by `docs/make_pages.py`.

| kind | fields | printed by |
|---|---|---|
"""


def log_events_page() -> str:
    """``log-events.md``."""
    names: dict[str, set[str]] = {}
    sources: dict[str, dict[str, None]] = {}
    for rule in RULES:
        said, source = rule.example.expect, rule.example.source
        names.setdefault(rule.kind, set()).update(name for name in said if not name.startswith("by_"))
        sources.setdefault(rule.kind, {}).setdefault(source.partition(" ")[0].partition("/")[0].rstrip(",;"))
    rows = {kind: (", ".join(sorted(names[kind])), ", ".join(list(sources[kind])[:6])) for kind in names}
    rows.update({kind: (fields, source) for kind, fields, source in _BY_CODE})
    return _HEAD + "".join(f"| `{kind}` | {rows[kind][0]} | {rows[kind][1]} |\n" for kind in sorted(rows))


def man_page() -> str:
    """``hangtop.1``: what ``--help`` says of hangtop and of each command, in man(7)'s macros.

    A list of options that several commands share stands with the first of them.
    """
    shared: set[str] = set()
    lines = [f'.TH HANGTOP 1 "" "hangtop {__version__}" "User Commands"', ".SH NAME", "hangtop \\- " + _sentence(group)]
    context = group.make_context("hangtop", [], terminal_width=73, resilient_parsing=True)
    for path, said in _helps(group, context):
        parts = [part for part in said.split("\n\n") if part not in shared]
        shared.update(part for part in parts if part.partition("\n")[0].endswith(":"))
        lines += [f".SH {path.upper()}", ".nf", *"\n\n".join(parts).replace("\\", "\\e").splitlines(), ".fi"]
    return "\n".join(lines) + "\n"


def _helps(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    """Each command with its words, a group before its commands."""
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _helps(inner, click.Context(inner, parent=context, info_name=name))


def _sentence(command: click.Command) -> str:
    """What a command does, as the name line of a man page has it."""
    return (command.help or "").partition(".")[0]


if __name__ == "__main__":
    FINDINGS.write_text(findings_page(FINDINGS.read_text(encoding="utf-8")), encoding="utf-8")
    LOG_EVENTS.write_text(log_events_page(), encoding="utf-8")
    MAN_PAGE.write_text(man_page(), encoding="utf-8")
