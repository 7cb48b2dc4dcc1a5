"""Where each node stands in a map of half blocks: groups below and beside each other, all of them seen if possible."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from tui.looks.text import cells
from tui.ordering.floor import ELSEWHERE, Bay, Floor

ROUND = (10, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200)
"""Nodes side by side where they stand in no groups: numbers that make the first names easy to count on from."""
LONGEST = 20
"""Cells of a name at most."""


class BayRow(NamedTuple):
    """A line of one group."""

    bay: int
    name: str
    """In the group's first line; empty in those that follow."""
    x: int
    """Where the nodes begin, after the name."""
    upper: tuple[int, ...]
    """Places among all nodes, …"""
    lower: tuple[int, ...]
    """… and of those in the lower halves, which may be fewer."""


class Spot(NamedTuple):
    """Where one node is."""

    x: int
    """First cell."""
    row: int
    """Counted in halves of lines where a line holds two."""


class BayPlan(NamedTuple):
    """A whole map."""

    lines: tuple[tuple[BayRow, ...], ...]
    """What stands side by side, from left to right."""
    wide: int
    """Cells of a node."""
    label: int
    """Cells before the nodes of a group: its name, a sign and a blank."""
    floor: Floor | None
    """How the groups were made; None where nodes only follow each other."""
    spots: dict[int, Spot]


def in_groups(floor: Floor, width: int, height: int, deep: int) -> BayPlan | None:
    """A plan that shows all nodes in their groups, and each as wide as can be; None where that has no room."""
    long = [bay.name for bay in floor.bays]
    words = [name.rstrip("0123456789") for name in long if name != ELSEWHERE]
    same = len([*takewhile(lambda letters: len({*letters}) == 1, zip(*words, strict=False))])
    short = [name if name == ELSEWHERE else name[same:] or name for name in long]
    most = -(-max(len(bay.members) for bay in floor.bays) // deep)
    for wide in (3, 2, 1):
        for names in (long, short) if same else (long,):
            label = min(max(map(cells, names)), LONGEST) + 3
            for across in _halvings(most):
                if label + across * wide > width:
                    continue
                beside = (width + 1) // (label + across * wide + 1)
                stacks = _stacked([_lines(bay, across * deep) for bay in floor.bays], beside, height)
                if stacks:
                    return _plan(floor, names, stacks, _Grain(label, wide, across, deep))
    return None


def in_order(names: Sequence[str], width: int, height: int, deep: int) -> BayPlan:
    """A plan of nodes that follow each other, a line named by its first; all are seen wherever they have room."""
    label = min(max(map(cells, names), default=4), LONGEST) + 3
    room, count = max(1, width - label - 1), len(names)
    fitting = (
        (wide, across)
        for wide in (3, 2, 1)
        for across in ROUND
        if across * wide <= room and -(-count // (across * deep)) <= height
    )
    wide, across = next(fitting, (1, room))
    each = across * deep
    bays = tuple(Bay(names[at], tuple(range(at, min(at + each, count)))) for at in range(0, count, each))
    floor = Floor("", "", bays)
    plan = _plan(
        floor, [bay.name for bay in bays], [range(len(bays))] if bays else [], _Grain(label, wide, across, deep)
    )
    return plan._replace(floor=None)


def _halvings(most: int) -> Iterator[int]:
    """Nodes side by side: a whole group in a line, then half of it, and so on."""
    across = most
    while True:
        yield across
        if across == 1:
            return
        across = -(-across // 2)


def _lines(bay: Bay, each: int) -> int:
    return -(-len(bay.members) // each)


def _stacked(heights: Sequence[int], beside: int, most: int) -> list[range]:
    """Groups below each other, in at most so many stacks, and those as low as can be; empty where that has no room."""
    for height in range(max(*heights, -(-sum(heights) // beside)), most + 1):
        found, first, used = [], 0, 0
        for place, lines in enumerate(heights):
            if used + lines > height:
                found.append(range(first, place))
                first, used = place, 0
            used += lines
        if len(found) < beside:
            return [*found, range(first, len(heights))]
    return []


class _Grain(NamedTuple):
    """How large things are."""

    label: int
    wide: int
    across: int
    deep: int


def _plan(floor: Floor, names: Sequence[str], stacks: Iterable[range], grain: _Grain) -> BayPlan:
    label, wide, across, deep = grain
    lines: list[list[BayRow]] = []
    spots: dict[int, Spot] = {}
    for number, stack in enumerate(stacks):
        x, y = number * (label + across * wide + 1) + label, 0
        for bay in stack:
            members = floor.bays[bay].members
            for first in range(0, len(members), across * deep):
                upper = members[first : first + across]
                lower = members[first + across : first + across * deep]
                if y == len(lines):
                    lines.append([])
                lines[y].append(BayRow(bay, "" if first else names[bay], x, upper, lower))
                for half, row in enumerate((upper, lower)):
                    spots |= {node: Spot(x + at * wide, y * deep + half) for at, node in enumerate(row)}
                y += 1
    return BayPlan(tuple(map(tuple, lines)), wide, label, floor, spots)
