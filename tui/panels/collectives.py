"""Panel 9: the last collectives of every group, ranks side by side, the odd one marked."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from hangtop.diagnosis.collectives.grid import CollectiveGrid, GridLine, State, grids
from hangtop.diagnosis.phrasing import folded, ranks_text
from tui.looks.format import UNKNOWN, age, plural
from tui.looks.text import fit
from tui.looks.theme import Colour
from tui.panels.base import Place
from tui.panels.item_panel import ItemPanel
from tui.widgets.itemlist import Item
from tui.widgets.lines import Piece, text_of

LABEL = 22
"""Cells of the left column."""
CELL = 13
"""Cells of a column, the space behind it included."""
MARKS: dict[State, tuple[str, Colour]] = {
    "done": ("✔", Colour.OK),
    "open": ("…", Colour.WARN),
    "differs": ("≠", Colour.BAD),
    "absent": ("✖", Colour.BAD),
    "unknown": ("·", Colour.DIM),
}
"""What stands before a cell's words: the mark says it without the colour."""
LEGEND: list[Piece] = [
    (" ✔", Colour.OK), (" done  ", Colour.DIM), ("…", Colour.WARN), (" waits  ", Colour.DIM), ("✖", Colour.BAD),
    (" not launched  ", Colour.DIM), ("≠", Colour.BAD), (" differs", Colour.DIM),
]  # fmt: skip


class CollectivesPanel(ItemPanel[tuple[CollectiveGrid, ...]]):
    """Tables of collectives under a line that says what the marks mean."""

    NAME = "collectives"
    EMPTY = "r asks for flight recorder dumps"
    CAN = frozenset({"enter", "copy", "node", "ranks"})
    WHY_NO_FILTER = "groups are few: 2 Ranks can be filtered"

    def source(self) -> Hashable:
        """The dumps of flight recorders."""
        return tuple((rank, dump.at) for rank, dump in self.model.state.recorders.items()), len(self.model.ranks)

    def maker(self) -> Callable[[], tuple[CollectiveGrid, ...]]:
        """Make the tables of all sources."""
        session, snapshot = self.model.session, self.model.session.snapshot()
        return lambda: grids(session.job_of(snapshot))

    def lay_out(self) -> None:
        """Write the tables, as many columns as have room."""
        room = max(1, (max(20, self.view.size.width - 1) - LABEL - 3) // CELL)
        self.feed([item for grid in self.made or () for item in self._items(grid, room)])
        self.bar.show(self._totals())

    def _items(self, grid: CollectiveGrid, room: int) -> list[Item]:
        """A heading, then a line for ranks that are alike."""
        shown = range(max(0, len(grid.columns) - room), len(grid.columns))
        everybody = frozenset(rank for line in grid.lines for rank in line.ranks)
        heading = (_heading(grid), _source(grid, self.model.now), *_titles(grid, shown))
        items = [Item(heading, everybody, grid.name, len(heading), apart=True)]
        for number, line in enumerate(grid.lines):
            cells = (self._line(line, shown),)
            items.append(Item(cells, frozenset(line.ranks), (grid.name, number), 1))
        return items

    def _line(self, line: GridLine, shown: range) -> list[Piece]:
        where = self.nodes_of(line.ranks) if len(line.ranks) == 1 else ""
        label = fit(f"{ranks_text(line.ranks)} {where}".rstrip(), LABEL - 1)
        pieces: list[Piece] = [
            ("▸ " if line.odd else "  ", Colour.BAD),
            (f"{label} ", Colour.ACCENT if line.odd else Colour.STRONG),
        ]
        for at in shown:
            mark, colour = MARKS[line.cells[at].state]
            pieces.append((fit(f"{mark} {line.cells[at].text}".strip(), CELL - 1) + " ", colour))
        return pieces

    def _totals(self) -> list[Piece]:
        if not self.made:
            return [(" the tables are being made" if self.making else " no collective seen", Colour.STRONG)]
        odd = sum(grid.odd for grid in self.made)
        pieces: list[Piece] = [(f" {plural(len(self.made), 'table')}", Colour.STRONG)]
        if odd:
            pieces.append((f"  ▸ {odd} with an odd rank", Colour.BAD))
        return [*pieces, ("  ", Colour.TEXT), *LEGEND]

    def enter(self) -> Place | None:
        """To the ranks of the line."""
        ranks = self.chosen_ranks()
        return Place("ranks", f"rank={folded(ranks)}", min(ranks)) if ranks else None

    def text(self) -> str:
        """All tables as text."""
        return text_of([line for item in self.view.items for line in item.lines])


def _heading(grid: CollectiveGrid) -> list[Piece]:
    dumped = len(grid.sources)
    of = f" of {grid.size}" if grid.size != dumped else ""
    return [
        (f"group {grid.name}", Colour.STRONG),
        (f"  {dumped}{of} {'rank' if grid.size == 1 else 'ranks'}", Colour.INFO),
        ("  ▸ not all at the same place" if grid.odd else "", Colour.BAD),
    ]


def _source(grid: CollectiveGrid, now: float) -> list[Piece]:
    """Who tells it, how old that is, and from where: the name of a group may be as long as a narrow line."""
    taken = f"{age(max(0.0, now - grid.at))} ago" if grid.at else f"age {UNKNOWN}"
    more = f" and {plural(len(grid.sources) - 1, 'other')}" if len(grid.sources) > 1 else ""
    return [
        ("  flight recorder, ", Colour.DIM),
        (taken, Colour.WARN if grid.at and now - grid.at > 60 else Colour.TEXT),
        (f", from {grid.sources[0]}{more}" if grid.sources else "", Colour.DIM),
    ]


def _titles(grid: CollectiveGrid, shown: Iterable[int]) -> list[list[Piece]]:
    """Two or three lines over the columns: number, operation, size; what is empty in all is left out."""
    columns = [grid.columns[place] for place in shown]
    rows = [[column.head for column in columns], [column.title for column in columns], [c.note for c in columns]]
    return [
        [(" " * (LABEL + 2), Colour.TEXT), *((fit(text, CELL - 1) + " ", colour) for text in row)]
        for row, colour in zip(rows, (Colour.INFO, Colour.TEXT, Colour.DIM), strict=True)
        if any(row)
    ]
