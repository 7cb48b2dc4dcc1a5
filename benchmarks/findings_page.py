"""Write the tables of ``docs/findings.md`` anew, from the rows of kinds and of event rules.

``python -m benchmarks.findings_page`` after a row was added or changed; a test says where that was forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from hangtop.diagnosis.rules import EVENT_ROWS
from hangtop.diagnosis.rules.engine import EventRow
from hangtop.diagnosis.tables.kinds import ROWS, WAITS_END, Kind

PAGE = Path(__file__).parents[1] / "docs" / "findings.md"
MADE = re.compile(r"<!-- made: (?P<name>\w+) -->\n.*?<!-- end -->", re.DOTALL)
"""A part of the page that is made from rows."""


def kinds() -> Iterator[str]:
    """One line a kind, by the verdict that it stands for."""
    yield from ("| kind | verdict | it means | explains |", "|---|---|---|---|")
    for row in ROWS:
        yield f"| `{row.name}` | {row.word.replace('_', ' ')} | {row.meaning} | {_explained(row)} |"


def _explained(row: Kind) -> str:
    kinds = {kind for effects in row.explains for kind in effects.kinds}
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


def made(page: str) -> str:
    """The page, with its made parts as the rows are now."""
    parts = {"kinds": kinds, "events": events}

    def anew(found: re.Match[str]) -> str:
        return "\n".join((f"<!-- made: {found['name']} -->", *parts[found["name"]](), "<!-- end -->"))

    return MADE.sub(anew, page)


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text()))
