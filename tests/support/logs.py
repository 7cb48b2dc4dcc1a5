"""Short words for tests of the log parser."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from collectors.node.logs.parser import LogParser
from collectors.samples.logs import CommProgress, LogEvent

LOGS = Path(__file__).parent.parent / "fixtures" / "logs"
NOW = time.mktime((2026, 11, 21, 12, 0, 0, 0, 0, -1))
"""A reference time shortly after that of the fixtures."""


def parse(text: str | bytes, *, rank: int | None = None, now: float = NOW) -> list[LogEvent]:
    """Events of a whole log."""
    parser = LogParser("log", rank=rank, now=now)
    data = text.encode() if isinstance(text, str) else text
    return [*parser.feed(data), *parser.close()]


def progress(text: str | bytes, *, rank: int | None = None) -> list[CommProgress]:
    """Communicators of a whole log."""
    parser = LogParser("log", rank=rank, now=NOW)
    parser.feed(text.encode() if isinstance(text, str) else text)
    parser.close()
    return parser.collectives.known()


def fixture(name: str) -> list[LogEvent]:
    """Events of a recorded log, by line."""
    return sorted(parse((LOGS / f"{name}.txt").read_bytes()), key=lambda event: event.line)


def kinds(events: Sequence[LogEvent]) -> list[str]:
    """Their kinds."""
    return [event.kind for event in events]


def only(events: Sequence[LogEvent], kind: str) -> LogEvent:
    """The one event of a kind."""
    found = [event for event in events if event.kind == kind]
    assert len(found) == 1, kinds(events)
    return found[0]


def of_kind(events: Sequence[LogEvent], kind: str) -> list[LogEvent]:
    """All events of a kind."""
    return [event for event in events if event.kind == kind]
