"""Panels with a line of totals, one table, and the details of the current row if there is room."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from textual import on
from textual.app import ComposeResult

from hangtop.diagnosis.phrasing import count
from tui.looks.theme import Colour
from tui.panels.base import Fact, Panel, Place, Selection
from tui.panels.facts import facts_text
from tui.view_model import ViewModel
from tui.widgets.columns import Column
from tui.widgets.lines import Bar, Lines, Piece
from tui.widgets.table import Table
from tui.widgets.textview import TextView

R = TypeVar("R")

LEAST = 5
"""Free lines below the table from which the details of its row are shown."""
CAN = frozenset({"filter", "sort", "enter", "details", "ranks"})


@dataclass(frozen=True, slots=True)
class TableSpec(Generic[R]):
    """The definition of a table panel: rows, columns, and functions of one row."""

    name: str
    noun: str
    """The noun for one row."""
    columns: Callable[[ViewModel], Sequence[Column[R]]]
    rows: Callable[[ViewModel], Sequence[R]]
    key: Callable[[R], Hashable]
    """Identity of a row across ticks."""
    node: Callable[[R], str | None]
    """Name of the row's node."""
    ranks: Callable[[ViewModel, R], set[int]]
    """Ranks of the row."""
    stale: Callable[[ViewModel, R], bool]
    """True if the row's values are old."""
    facts: Callable[[ViewModel, R], tuple[str, list[Fact]]]
    """Title and details of the row."""
    enter: Callable[[ViewModel, R], Place | None]
    """Where Enter leads."""
    blamed: Callable[[ViewModel], Hashable]
    """Key of the row that the verdict blames; None without one."""
    totals: Callable[[ViewModel, Sequence[R]], list[Piece]]
    """The line above the table, for the rows that pass the filter."""
    empty: Callable[[ViewModel], str]
    """Text of a table without rows."""
    can: frozenset[str] = CAN
    frozen: int = 2
    """Number of columns that never scroll away."""

    def __call__(self, model: ViewModel) -> Panel:
        """Make the panel."""
        return TablePanel(model, self)


class TablePanel(Panel, Generic[R]):
    """The panel of a :class:`TableSpec`."""

    def __init__(self, model: ViewModel, spec: TableSpec[R]) -> None:
        super().__init__(model, spec.name)
        self.spec = spec
        self.bar, self.more = Bar(), TextView(hint="i details")
        self.more.can_focus = False
        self.table: Table[R] = Table(
            spec.columns(model), key=spec.key, stale=lambda row: spec.stale(model, row), frozen=spec.frozen
        )
        self._touched = False
        """True once the user moved the cursor; until then it is on the blamed row."""
        self._stood: Hashable = None
        """Key of the blamed row that the cursor was last put on."""

    @property
    def can(self) -> frozenset[str]:
        """The capabilities of the spec."""
        return self.spec.can

    @property
    def main(self) -> Lines:
        """The table."""
        return self.table

    def compose(self) -> ComposeResult:
        """The line of totals, the table, and the details of the current row."""
        yield self.bar
        yield self.table
        yield self.more

    def shown(self) -> None:
        """Follow the blamed row again if it is another one than when the user moved the cursor."""
        self._touched = self._touched and self.spec.blamed(self.model) == self._stood

    def renew(self) -> None:
        """Forget which columns the rows of the last moment needed."""
        self.table.view.forget()

    def draw(self) -> None:
        """Feed the table."""
        self.table.feed(self.spec.rows(self.model))
        if not self.table.total:
            self.table.empty = self.spec.empty(self.model)
        blamed = None if self._touched else self.spec.blamed(self.model)
        if blamed is not None and blamed != self._stood and self.table.size.height > 1:
            self._stood = blamed
            self.table.select(blamed, middle=True)
        self.draw_around()

    def draw_around(self) -> None:
        """Draw the totals and the details of the current row."""
        rows, totals = self.table.rows, self.spec.totals(self.model, self.table.rows)
        if self.narrowed():
            of = f" {len(rows):,} of {count(self.table.total, self.spec.noun)} shown"
            totals = [(of, Colour.STRONG), ("  ", Colour.DIM), *totals]
        self.bar.show(totals)
        self.draw_details()

    def draw_details(self) -> None:
        """Draw the details of the current row, if the table leaves enough free lines."""
        free = self.size.height - 1 - (len(self.table.rows) + 2)
        row = self.table.current if free >= LEAST else None
        self.more.display = row is not None
        self.table.styles.height = "1fr" if row is None else f"{len(self.table.rows) + 1}"
        if row is not None:
            title, facts = self.spec.facts(self.model, row)
            self.more.show(facts_text(facts), title)

    @on(Table.Changed)
    def touch(self) -> None:
        """Note that the user moved the cursor or sorted the rows, and draw the details."""
        self._touched = True
        self.draw_details()

    def set_filter(self, text: str) -> None:
        """Show only rows that pass the filter and the scope."""
        self.table.set_filter(f"{self.scope} {text}".strip())
        self.query_text = text
        if self.is_mounted:
            self.draw_around()

    def fields(self) -> list[str]:
        """The field names of the columns."""
        return [column.fields[0] for column in self.table.columns]

    def columns_help(self) -> list[tuple[str, str]]:
        """Title and meaning of every column, for the help."""
        return [(column.title or column.key, column.help) for column in self.table.columns]

    def enter(self) -> Place | None:
        """Where Enter leads from the current row."""
        row = self.table.current
        return None if row is None else self.spec.enter(self.model, row)

    def here(self) -> Hashable:
        """Key of the current row."""
        row = self.table.current
        return None if row is None else self.spec.key(row)

    def select(self, key: Hashable) -> None:
        """Put the cursor on a row, by its key or by one of its ranks."""
        rows = self.spec.rows(self.model)
        if isinstance(key, int):
            key = next((self.spec.key(row) for row in rows if key in self.spec.ranks(self.model, row)), None)
        self._touched = True
        self.table.feed(rows)
        self.table.select(key)

    def selection(self) -> Selection:
        """The current row; its text is its cells in one line."""
        row, spec = self.table.current, self.spec
        if row is None:
            return Selection()
        title, facts = spec.facts(self.model, row)
        return Selection(spec.node(row), spec.ranks(self.model, row), title, facts, self.table.words(row))


def counts(parts: Sequence[tuple[int, str, Colour]]) -> list[Piece]:
    """Pieces for the texts whose number is not zero."""
    return [(f"   {text}", colour) for number, text, colour in parts if number]
