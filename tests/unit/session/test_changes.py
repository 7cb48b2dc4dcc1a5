"""What happened is kept by kind."""

from __future__ import annotations

from hangtop.session.state.changes import MOST, Change, Changes


def test_many_of_one_kind_push_out_none_of_another_and_are_bounded_themselves() -> None:
    changes = Changes([Change(0.0, "", "rank 3 holds up 7", "hung"), Change(1.0, "node2", "lost: cut", "lost")])
    for number in range(3 * MOST):
        changes.append(Change(2.0 + number, "node1", f"rank {number} started", "started"))
        changes.append(Change(2.0 + number, "node1", "samples late", "late"))
    kept = [*changes]
    assert [change.kind for change in kept[:2]] == ["hung", "lost"]
    assert len(kept) == 2 + MOST + MOST
    assert kept == sorted(kept, key=lambda change: change.at)
    assert changes.since(changes.noted - 3) == kept[-3:]
    assert changes.since(changes.noted) == []
    assert [change.at for change in changes.of("late")] == [change.at for change in kept[::-1] if change.kind == "late"]
    assert set(changes.kinds()) == {"hung", "lost", "started", "late"}
