"""Tables of collectives as blocks of lines: a heading a group, then a line for ranks that are alike; no drawing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from hangtop.diagnosis.groups.table import CollectiveGrid, GridCell, GridLine, State
from tui.looks.format import UNKNOWN, age, plural
from tui.looks.text import fit
from tui.looks.theme import Tone
from tui.widgets.blocks import Block
from tui.widgets.lines import Piece

LABEL = 22
"""Cells of the left column."""
CELL = 13
"""Cells of a column, the space behind it included."""
MARKS: dict[State, tuple[str, Tone]] = {
    "done": ("✔", Tone.OK),
    "open": ("…", Tone.WARN),
    "differs": ("≠", Tone.BAD),
    "absent": ("✖", Tone.BAD),
    "unknown": ("·", Tone.DIM),
    "value": ("", Tone.TEXT),
}
"""What stands before a cell's words: the mark says it without the colour."""
LEGEND: list[Piece] = [
    (" ✔", Tone.OK), (" done  ", Tone.DIM), ("…", Tone.WARN), (" waits  ", Tone.DIM), ("✖", Tone.BAD),
    (" not launched  ", Tone.DIM), ("≠", Tone.BAD), (" differs", Tone.DIM),
]  # fmt: skip


def columns_in(width: int) -> int:
    """How many columns a line of this width has room for."""
    return max(1, (width - LABEL - 3) // CELL)


def longest(grids: Iterable[CollectiveGrid]) -> int:
    """Most columns that a table has."""
    return max((len(grid.columns) for grid in grids), default=0)


def blocks_of_grids(
    grids: Sequence[CollectiveGrid], width: int, back: int, now: float, place: Callable[[Iterable[int]], str]
) -> list[Block]:
    """All tables. ``back`` leaves out so many of the newest columns; ``place`` names the nodes of some ranks."""
    blocks: list[Block] = []
    for grid in grids:
        shown = _window(grid, columns_in(width), back)
        everybody = frozenset(rank for line in grid.lines for rank in line.ranks)
        heading = [_heading(grid), _source(grid, now), *_titles(grid, shown)]
        blocks.append(Block(everybody, tuple(heading), len(heading), f"{grid.witness} {grid.name}"))
        for number, line in enumerate(grid.lines):
            name = f"{grid.witness} {grid.name} {number}"
            blocks.append(Block(frozenset(line.ranks), (list(_line(line, shown, place)),), 1, name, joined=True))
    return blocks


def is_of(block: Block, grid: CollectiveGrid) -> bool:
    """Whether a block is this table's heading or one of its lines: groups of other ranks may have the same name."""
    heading = f"{grid.witness} {grid.name}"
    line = block.name.removeprefix(f"{heading} ")
    everybody = frozenset(rank for one in grid.lines for rank in one.ranks)
    return (block.name == heading or (line != block.name and line.isdecimal())) and block.ranks <= everybody


def _window(grid: CollectiveGrid, room: int, back: int) -> range:
    """Places of the columns that are shown: the newest, or older ones; tables of counters stay where they are."""
    if grid.witness != "flight recorder":
        return range(min(room, len(grid.columns)))
    end = max(min(room, len(grid.columns)), len(grid.columns) - back)
    return range(max(0, end - room), end)


def _heading(grid: CollectiveGrid) -> list[Piece]:
    name = "group" if grid.witness == "flight recorder" else "communicator"
    said = f" ({grid.description})" if grid.description else ""
    of = f" of {grid.size}" if grid.size is not None and grid.size != grid.seen else ""
    return [
        (f"{name} {grid.name}{said}", Tone.STRONG),
        (f"  {grid.seen}{of} {'rank' if (grid.size or grid.seen) == 1 else 'ranks'}", Tone.INFO),
        ("  ▸ not all at the same place" if grid.odd else "", Tone.BAD),
    ]


def _source(grid: CollectiveGrid, now: float) -> list[Piece]:
    """Who tells it, how old that is, and from where: the name of a group may be as long as a narrow line."""
    what = "" if grid.aged else "newest entry "
    taken = f"{what}{age(max(0.0, now - grid.at))} ago" if grid.at else f"age {UNKNOWN}"
    more = f" and {plural(len(grid.sources) - 1, 'other')}" if len(grid.sources) > 1 else ""
    return [
        (f"  {grid.witness}, ", Tone.DIM),
        (taken, Tone.WARN if grid.at and now - grid.at > 60 else Tone.TEXT),
        (f", from {grid.sources[0]}{more}" if grid.sources else "", Tone.DIM),
    ]


def _titles(grid: CollectiveGrid, shown: range) -> list[list[Piece]]:
    """Two or three lines over the columns: number, operation, size; what is empty in all is left out."""
    columns = [grid.columns[place] for place in shown]
    rows = [[column.head for column in columns], [column.title for column in columns], [c.note for c in columns]]
    return [
        [(" " * (LABEL + 2), Tone.TEXT), *((fit(text, CELL - 1) + " ", tone) for text in row)]
        for row, tone in zip(rows, (Tone.INFO, Tone.TEXT, Tone.DIM), strict=True)
        if any(row)
    ]


def _line(line: GridLine, shown: range, place: Callable[[Iterable[int]], str]) -> Iterable[Piece]:
    yield "▸ " if line.odd else "  ", Tone.BAD
    where = place(line.ranks) if len(line.ranks) == 1 else ""
    label = f"{line.label} {where}".rstrip()
    yield fit(label, LABEL - 1) + " ", Tone.ACCENT if line.odd else Tone.STRONG
    for at in shown:
        yield _cell(line.cells[at])


def _cell(cell: GridCell) -> Piece:
    mark, tone = MARKS[cell.state]
    return fit(f"{mark} {cell.text}".strip(), CELL - 1) + " ", tone
