"""Events that wait to be sent, under a flood: bounded, fair among logs, and what is left out is counted and said."""

from __future__ import annotations

import pytest

from collectors.node.logs.following import outbox as waiting
from collectors.node.logs.following.outbox import Outbox
from collectors.samples.logs import LogEvent


def event(source: str, line: int, text: str = "x" * 800) -> LogEvent:
    return LogEvent("nccl.warn", None, 3, "", 7, source, line, text, {})


def lines_of(found: list[LogEvent], source: str) -> list[int]:
    return [one.line for one in found if one.source == source and one.kind == "nccl.warn"]


def test_all_of_a_few_are_sent_in_order_and_nothing_is_said() -> None:
    held = Outbox()
    held.add(event("a", line) for line in range(5))
    found = list(held.take(1 << 20, 1.0))
    assert lines_of(found, "a") == [0, 1, 2, 3, 4]
    assert len(found) == 5
    assert len(held) == 0


def test_a_flood_is_bounded_counted_and_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "MOST", 100_000)
    held = Outbox()
    held.add(event("flood", line) for line in range(1000))
    assert len(held) == 100
    found = list(held.take(1 << 20, 1.0))
    assert lines_of(found, "flood") == list(range(100)), "the first are kept"
    (said,) = [one for one in found if one.kind == "log.crowded"]
    assert (said.data["events"], said.source, said.rank, said.pid) == (900, "flood", 3, 7)
    held.add(event("flood", line) for line in range(150))
    assert "log.crowded" not in {one.kind for one in held.take(1 << 20, 2.0)}, "said a second ago"
    (later,) = held.take(1 << 20, 12.0)
    assert later.data["events"] == 50, "what was not said then"
    assert not list(held.take(1 << 20, 30.0))


def test_a_flood_in_one_log_hides_no_line_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "MOST", 100_000)
    held = Outbox()
    held.add(event("flood", line) for line in range(1000))
    held.add([event("quiet", 1), event("quiet", 2)])
    found = list(held.take(3_500, 1.0))
    assert lines_of(found, "quiet") == [1, 2], "each log in its turn, so in the first look"
    held.add(event("flood", line) for line in range(1000))
    assert {one.source for one in held.take(1 << 20, 1.0) if one.kind == "log.crowded"} <= {"flood"}


def test_what_is_in_data_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "MOST", 100_000)
    held = Outbox()
    held.add(event("a", line, "")._replace(data={"frames": ["f" * 1000] * 9}) for line in range(50))
    assert 5 < len(held) < 15
