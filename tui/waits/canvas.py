"""A drawing as characters: each cell with what it belongs to, so that the screen can colour it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from rich.cells import get_character_cell_size

from tui.waits.drawing import Drawing, DrawnArrow, DrawnBox


class DrawnPart(IntEnum):
    """What a cell belongs to."""

    NOTHING = 0
    ARROW = 1
    HEAVY_ARROW = 2
    LABEL = 3
    BORDER = 4
    TEXT = 5


class Patch(NamedTuple):
    """Neighbouring cells of one line that belong together."""

    text: str
    part: DrawnPart
    box: int
    """Place of the box; -1 outside of boxes."""


class WaitPicture(NamedTuple):
    """A drawing and its lines."""

    drawing: Drawing
    rows: list[list[Patch]]


class _Cell(NamedTuple):
    char: str
    part: DrawnPart
    box: int


_EMPTY = _Cell(" ", DrawnPart.NOTHING, -1)
_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_LINES = {
    _LEFT: "─", _RIGHT: "─", _LEFT | _RIGHT: "─", _UP: "│", _DOWN: "│", _UP | _DOWN: "│",
    _DOWN | _RIGHT: "┌", _DOWN | _LEFT: "┐", _UP | _RIGHT: "└", _UP | _LEFT: "┘",
    _LEFT | _RIGHT | _DOWN: "┬", _LEFT | _RIGHT | _UP: "┴", _UP | _DOWN | _RIGHT: "├", _UP | _DOWN | _LEFT: "┤",
    _UP | _DOWN | _LEFT | _RIGHT: "┼",
}  # fmt: skip
HEAD = "◀"
_LIGHT, _HEAVY = "┌─┐│└┘┤", "┏━┓┃┗┛┨"


def patches(drawing: Drawing) -> list[list[Patch]]:
    """Each line from left to right."""
    grid = [[_EMPTY] * drawing.width for _ in range(drawing.height)]
    ways: dict[tuple[int, int], tuple[int, bool]] = {}
    for arrow in drawing.arrows:
        _draw(ways, arrow)
    for (x, y), (ends, heavy) in ways.items():
        grid[y][x] = _Cell(_LINES[ends], DrawnPart.HEAVY_ARROW if heavy else DrawnPart.ARROW, -1)
    for arrow in drawing.arrows:
        x, y = arrow.points[-1]
        grid[y][x] = _Cell(HEAD, DrawnPart.HEAVY_ARROW if arrow.heavy else DrawnPart.ARROW, -1)
        if arrow.label:
            at, row = arrow.label_at
            _write(grid[row], at - 1, f" {arrow.label} ", DrawnPart.LABEL, -1)
    waiters = {arrow.points[0] for arrow in drawing.arrows}
    for place, box in enumerate(drawing.boxes):
        _box(grid, place, box, leads=(box.x - 1, box.y + 1) in waiters)
    return [_joined(row) for row in grid]


def _draw(ways: dict[tuple[int, int], tuple[int, bool]], arrow: DrawnArrow) -> None:
    """Remember into which directions lines leave each cell."""
    for (x1, y1), (x2, y2) in zip(arrow.points, arrow.points[1:], strict=False):
        step = (_sign(x2 - x1), _sign(y2 - y1))
        out = {(-1, 0): _LEFT, (1, 0): _RIGHT, (0, -1): _UP, (0, 1): _DOWN}.get(step)
        if out is None:
            continue
        back = {_LEFT: _RIGHT, _RIGHT: _LEFT, _UP: _DOWN, _DOWN: _UP}[out]
        x, y = x1, y1
        while (x, y) != (x2, y2):
            _add(ways, (x, y), out, heavy=arrow.heavy)
            x, y = x + step[0], y + step[1]
            _add(ways, (x, y), back, heavy=arrow.heavy)


def _add(ways: dict[tuple[int, int], tuple[int, bool]], at: tuple[int, int], ends: int, *, heavy: bool) -> None:
    known, was_heavy = ways.get(at, (0, False))
    ways[at] = known | ends, was_heavy or heavy


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


def _box(grid: list[list[_Cell]], place: int, box: DrawnBox, *, leads: bool) -> None:
    corner, across, other, down, low, end, out = tuple(_HEAVY if box.box.blamed else _LIGHT)
    inner = box.width - 2
    title = f"{across} {box.box.letter} "
    top = f"{corner}{title}{across * (inner - len(title))}{other}"
    _write(grid[box.y], box.x, top, DrawnPart.BORDER, place)
    _write(grid[box.y + box.height - 1], box.x, f"{low}{across * inner}{end}", DrawnPart.BORDER, place)
    for line, text in enumerate(box.texts):
        row = grid[box.y + 1 + line]
        _write(row, box.x, out if leads and not line else down, DrawnPart.BORDER, place)
        _write(row, box.x + 1, f" {text} ", DrawnPart.TEXT, place)
        _write(row, box.x + box.width - 1, down, DrawnPart.BORDER, place)


def _write(row: list[_Cell], x: int, text: str, part: DrawnPart, box: int) -> None:
    for char in text:
        size = get_character_cell_size(char)
        if size:
            row[x] = _Cell(char, part, box)
            row[x + 1 : x + size] = [_Cell("", part, box)] * (size - 1)
            x += size


def _joined(row: Sequence[_Cell]) -> list[Patch]:
    found: list[Patch] = []
    for char, part, box in row:
        if found and found[-1][1:] == (part, box):
            found[-1] = Patch(found[-1].text + char, part, box)
        else:
            found.append(Patch(char, part, box))
    return found
