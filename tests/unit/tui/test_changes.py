"""Which of what happened is told where there is room for a few lines."""

from __future__ import annotations

from hangtop.session.state.changes import Change, ChangeKind, Changes
from tui.logs.changes import chosen, told

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


def test_where_there_is_room_nothing_is_left_out_and_nothing_is_hangtops_own() -> None:
    changes = Changes([Change(1.0, "", "watching", "hangtop"), Change(2.0, "", "all is well", "healthy")])
    assert chosen(changes, 4) == [Change(2.0, "", "all is well", "healthy")]
    some = Changes([Change(float(at), "node1", f"what {at}", "other") for at in range(9)])
    assert [change.at for change in chosen(some, 4)] == [8.0, 7.0, 6.0, 5.0]


def test_of_ranks_it_is_told_first_who_and_what_and_then_where() -> None:
    def of(*who: tuple[int, str]) -> list[str]:
        changes = [Change(1.0, node, f"rank {rank} is stopped", "stopped") for rank, node in who]
        return [f"{line.node}|{line.text}" for line in told(changes, 5)]

    assert of((3, "node1")) == ["|rank 3 is stopped on node1"]
    assert of((3, "node1"), (5, "node1")) == ["|ranks 3,5 are stopped on node1"]
    assert of((3, "")) == ["|rank 3 is stopped"]
    assert told([Change(1.0, "node1", "port mlx5_0/1: ACTIVE → DOWN", "port")], 5)[0].node == "node1"


def test_sources_of_hangtop_that_come_late_while_it_begins_are_no_news() -> None:
    late = Change(105.0, "node1", "gpus: ok → late: no answer within 5 s", "late")
    assert chosen(Changes([late]), 4, began=100.0) == []
    assert chosen(Changes([late]), 4, began=0.0) == [late]
