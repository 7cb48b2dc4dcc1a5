"""What happened is kept by kind, and what nodes said by node."""

from __future__ import annotations

from collectors.samples.logs import LogEvent
from hangtop.session.state import MEMORY, JobState

MOST = MEMORY // 1000


def test_many_of_one_kind_push_out_none_of_another_and_are_bounded_themselves() -> None:
    state = JobState()
    changes = state.changes
    state.note(0.0, "rank 3 holds up 7", "hung", "")
    state.note(1.0, "lost: cut", "lost", "node2")
    for number in range(MOST):
        state.note(2.0 + number, f"rank {number} started", "started", "node1")
        state.note(2.0 + number, "samples late", "late", "node1")
    kept = [change for _, change in changes]
    assert [change.kind for change in kept[:2]] == ["hung", "lost"]
    assert MOST // 2 < len(kept) == len(changes) <= MOST
    assert kept == sorted(kept, key=lambda change: change.at)
    assert [change for _, change in changes.since(changes.total - 3)] == kept[-3:]
    assert changes.since(changes.total) == []
    assert [change for _, change in reversed(changes)] == kept[::-1]


def test_one_node_cannot_push_out_what_others_said() -> None:
    def event(number: int, text: str = "x") -> LogEvent:
        return LogEvent("nccl.warn", 1000.0, 0, "", 1, "log", number, text, {})

    events = JobState().events
    events.add("good", event(1, "the cause"))
    for number in range(60_000):
        events.add("bad", event(number))
    assert ("good", event(1, "the cause")) in events
    assert len(events) <= MEMORY // 1000
    assert [*events][-1] == ("bad", event(59_999))
    assert events.total == 60_001
