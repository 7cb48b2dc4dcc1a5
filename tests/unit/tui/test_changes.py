"""Which of what happened is told where there is room for a few lines."""

from __future__ import annotations

from hangtop.session.state.changes import Change, ChangeKind, Changes
from tui.logs.changes import chosen

COMINGS: tuple[ChangeKind, ...] = ("started", "ended", "back", "late", "other", "dump")


def flooded() -> Changes:
    changes = Changes(
        [
            Change(1.0, "node2", "port mlx5_0/1: ACTIVE → DOWN", "port"),
            Change(2.0, "node3", "lost: the link was cut", "lost"),
            Change(3.0, "", "rank 11 holds up 31 others", "hung"),
            Change(4.0, "", "watching", "hangtop"),
        ]
    )
    for number in range(9000):
        changes.append(Change(10.0 + 5 * number, "node1", f"what {number}", COMINGS[number % len(COMINGS)]))
    return changes


def test_comings_and_goings_push_out_no_verdict_no_lost_node_and_no_port() -> None:
    found = chosen(flooded(), 4)
    assert [change.kind for change in found] == ["dump", "hung", "lost", "port"]
    more = chosen(flooded(), 8)
    assert [change.text for change in more[:5]] == [f"what {number}" for number in range(8999, 8994, -1)]
    assert [change.kind for change in more[5:]] == ["hung", "lost", "port"]


def test_sources_of_hangtop_that_come_late_while_it_begins_are_no_news() -> None:
    late = Change(105.0, "node1", "gpus: ok → late: no answer within 5 s", "late")
    assert chosen(Changes([late]), 4, began=100.0) == []
    assert chosen(Changes([late]), 4, began=0.0) == [late]
