"""Nodes in groups: by what they hang at, by their names, or not at all; and where each then stands."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tui.ordering.floor import ELSEWHERE, Floors, floors
from tui.widgets.bays import BayPlan, in_groups, in_order

from collectors.samples.location import Location
from hangtop.session.state.job_state import NodeState


def nodes(count: int, name: Callable[[int], str], **levels: Callable[[int], str]) -> list[NodeState]:
    made = [NodeState(name(place)) for place in range(count)]
    for place, node in enumerate(made):
        for level, at in levels.items():
            if at(place):
                node.locations[("scontrol", level)] = Location(level, at(place), "scontrol")
    return made


def numbered(place: int) -> str:
    return f"gpu{place:04d}"


def test_the_leaf_comes_before_the_rack_and_both_before_names() -> None:
    found = floors(nodes(64, numbered, rack=lambda at: f"r{at // 32}", leaf=lambda at: f"leaf{at // 8}"))
    assert [(floor.level, floor.source, len(floor.bays)) for floor in found] == [
        ("leaf", "scontrol", 8), ("rack", "scontrol", 2)
    ]  # fmt: skip
    assert found[0].bays[1].name == "leaf1"
    assert found[0].bays[1].members == tuple(range(8, 16))


def test_a_node_of_which_nobody_knows_stands_elsewhere() -> None:
    found = floors(nodes(9, numbered, leaf=lambda at: "" if at == 4 else f"leaf{at // 4}"))
    assert [(bay.name, len(bay.members)) for bay in found[0].bays] == [("leaf0", 4), ("leaf1", 3), ("leaf2", 1),
                                                                      (ELSEWHERE, 1)]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "level", "groups"),
    [
        (lambda at: f"r{at // 8:02d}-n{at % 8}", "rack", ["rack 0", "rack 1"]),
        (lambda at: f"dgx-{'ab'[at // 8]}-{at % 8:03d}", "name", ["dgx-a", "dgx-b"]),
        (lambda at: f"ada@pod{at // 8}x{at % 8}.cluster.local", "name", ["pod0x", "pod1x"]),
    ],
)
def test_names_part_nodes_where_nobody_tells_more(name: Callable[[int], str], level: str, groups: list[str]) -> None:
    found = floors(nodes(16, name))
    assert [(floor.level, [bay.name for bay in floor.bays]) for floor in found] == [(level, groups)]


@pytest.mark.parametrize("name", [numbered, lambda at: f"n{at}-a", lambda at: f"host{'abcdefghijklmnop'[at]}1"])
def test_names_that_tell_no_groups_make_none(name: Callable[[int], str]) -> None:
    assert floors(nodes(16, name)) == []


def test_one_leaf_for_all_tells_nothing() -> None:
    assert floors(nodes(16, numbered, leaf=lambda _: "leaf1")) == []


def test_groups_are_worked_out_anew_only_when_something_came() -> None:
    made, kept = nodes(8, numbered, leaf=lambda at: f"leaf{at // 4}"), Floors()
    first = kept.turn(made)
    assert kept.turn(made) is first
    made[0].locations[("scontrol", "rack")] = Location("rack", "r1", "scontrol")
    assert kept.turn(made) is not first


def seen(plan: BayPlan) -> list[int]:
    return sorted(node for line in plan.lines for row in line for node in (*row.upper, *row.lower))


@pytest.mark.parametrize("deep", [1, 2])
@pytest.mark.parametrize("size", [(68, 23), (150, 30), (190, 40)])
@pytest.mark.parametrize("each", [16, 24, 32, 64, 100])
def test_each_node_has_a_place_of_its_own_and_is_found_there(each: int, size: tuple[int, int], deep: int) -> None:
    width, height = size
    made = nodes(700, numbered, leaf=lambda at: f"leaf{at // each}")
    plan = in_groups(floors(made)[0], width, height, deep)
    if plan is None:
        plan = in_order([node.name for node in made], width, height, deep)
    assert seen(plan) == list(range(700))
    assert len(plan.lines) <= height
    assert len({*plan.spots.values()}) == 700
    for line in plan.lines:
        ends = 0
        for row in line:
            assert row.x - plan.label >= ends
            ends = row.x + len(row.upper) * plan.wide
            assert len(row.lower) <= len(row.upper)
        assert ends <= width


def test_groups_that_have_no_room_are_not_squeezed_in() -> None:
    made = nodes(600, numbered, leaf=lambda at: f"leaf{at // 2}")
    floor = floors(made)[0]
    assert in_groups(floor, 60, 20, 2) is None
    assert in_groups(floor, 200, 40, 2) is not None


def test_names_lose_what_they_share_where_that_makes_room() -> None:
    floor = floors(nodes(512, numbered, leaf=lambda at: f"leaf-switch-{at // 16}"))[0]
    wide, narrow = in_groups(floor, 200, 20, 2), in_groups(floor, 70, 12, 2)
    assert wide is not None
    assert narrow is not None
    assert wide.lines[0][0].name == "leaf-switch-0"
    assert narrow.lines[0][0].name == "0"
    assert narrow.floor is not None
    assert narrow.floor.bays[0].name == "leaf-switch-0"
