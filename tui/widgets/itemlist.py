"""A list with a cursor, of items of several lines: groups of stacks, tables of collectives."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from textual import events
from textual.strip import Strip

from tui.looks.text import line_of
from tui.looks.theme import Background, Colour
from tui.widgets.lines import Lines, Move, Piece, step_of, strip_of
from tui.widgets.textview import broken


@dataclass(frozen=True, slots=True)
class Item:
    """Lines with a heading first."""

    lines: tuple[list[Piece], ...]
    ranks: frozenset[int] = frozenset()
    key: Hashable = None
    """Distinguishes items of the same ranks."""
    apart: bool = False
    """Has an empty line before it, and shows the cursor only on its heading."""


class ItemList(Lines):
    """The list."""

    def __init__(self, empty: str) -> None:
        super().__init__()
        self.empty = empty
        self.cursor = 0
        self.items: Sequence[Item] = ()
        self._rows: list[tuple[int, list[Piece]]] = []
        """For each line, the index of its item (-1: none) and its pieces."""

    def feed(self, items: Sequence[Item]) -> None:
        """Replace the items; the cursor stays on the item with the same ranks and key."""
        kept = self.current
        self.items = items
        same = (at for at, item in enumerate(items) if kept and (item.ranks, item.key) == (kept.ranks, kept.key))
        self.cursor = next(same, max(0, min(self.cursor, len(items) - 1)))
        self.resized()
        self.redraw()

    def resized(self) -> None:
        """Wrap the lines for the present width."""
        self._rows = []
        for place, item in enumerate(self.items):
            if place and item.apart:
                self._rows.append((-1, []))
            for line in item.lines:
                self._rows += [(place, part) for part in broken(line, max(20, self.room - 1))]
        self.resize_to(len(self._rows))

    @property
    def current(self) -> Item | None:
        """The item under the cursor."""
        return self.items[self.cursor] if self.cursor < len(self.items) else None

    def select_rank(self, rank: int) -> None:
        """Put the cursor on the smallest item with this rank."""
        with_it = [(len(item.ranks), place) for place, item in enumerate(self.items) if rank in item.ranks]
        if with_it:
            self.go(min(with_it)[1])

    def go(self, place: int) -> None:
        """Put the cursor on an item, and scroll it into view."""
        if self.items:
            self.cursor = max(0, min(len(self.items) - 1, place))
            self.resized()
            rows = [row for row, (at, _) in enumerate(self._rows) if at == self.cursor]
            self.bring(rows[-1])
            self.bring(rows[0])
            self.redraw()

    def move(self, how: Move) -> None:
        """Move the cursor from item to item."""
        self.go(self.cursor + step_of(how, self.size.height // 4))

    def paint(self, y: int, width: int) -> Strip:
        """One line."""
        at = self.top + y
        if not self.items:
            return strip_of([(line_of(self.empty, width, at), Colour.DIM)], width, self.palette)
        place, pieces = self._rows[at] if at < len(self._rows) else (-1, [])
        here = place == self.cursor
        heading = at == 0 or (place >= 0 and self._rows[at - 1][0] != place)
        ground = Background.CURSOR if here and (heading or not self.items[place].apart) else Background.PLAIN
        return strip_of([("▌" if here else " ", Colour.ACCENT), *pieces], width, self.palette, ground)

    def on_click(self, event: events.Click) -> None:
        """Select an item."""
        at = self.top + event.y
        if at < len(self._rows) and self._rows[at][0] >= 0:
            self.go(self._rows[at][0])
