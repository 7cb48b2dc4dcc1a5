"""What happened is kept by kind."""

from __future__ import annotations

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
    assert [change.at for change in changes.of("late")] == [change.at for change in kept[::-1] if change.kind == "late"]
    assert set(changes.owners()) == {"hung", "lost", "started", "late"}
