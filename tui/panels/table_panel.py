"""Panels that are one table under a line of totals, with the details of its row where the table leaves lines free."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar, Generic, TypeVar

from textual import on
from textual.app import ComposeResult

from tui.looks.format import plural
from tui.looks.theme import Colour
from tui.panels.base import Fact, Panel
from tui.panels.facts import facts_text
from tui.view_model import ViewModel
from tui.widgets.lines import Bar, Lines, Piece
from tui.widgets.table import Column, Table
from tui.widgets.textview import TextView

R = TypeVar("R")

LEAST = 5
"""Lines that a table leaves free from which on the details of its row stand there."""


class TablePanel(Panel, Generic[R]):
    """A panel that is one table under a line of totals. A subclass says what its rows are, and what is known of one."""

    CAN = frozenset({"filter", "sort", "mark", "enter", "copy", "details", "node", "ranks"})
    NOUN: ClassVar[str]
    """One row, in words."""
    FROZEN: ClassVar[int] = 2
    """Columns that never scroll away."""

    def __init__(self, model: ViewModel) -> None:
        super().__init__(model)
        self.bar, self.ordered_by, self.more = Bar(), Bar(), TextView(hint="i all")
        self.more.can_focus = False
        self.table: Table[R] = Table(self.columns(), key=self.key, stale=self.is_stale, frozen=self.FROZEN)
        self._touched = False
        """Whether somebody moved the cursor: until then it stands on what the verdict blames."""
        self._stood: Hashable = None
        """The row that it was put on for that."""

    @property
    def main(self) -> Lines:
        """The table."""
        return self.table

    def columns(self) -> Sequence[Column[R]]:
        """The table's columns."""
        raise NotImplementedError

    def rows(self) -> Sequence[R]:
        """The latest rows."""
        raise NotImplementedError

    def key(self, row: R) -> Hashable:
        """What a row is known by from tick to tick."""
        raise NotImplementedError

    def is_stale(self, row: R) -> bool:
        """True when the row's numbers are old."""
        raise NotImplementedError

    def node_of(self, row: R) -> str | None:
        """Name of the row's node."""
        raise NotImplementedError

    def facts(self, row: R) -> tuple[str, list[Fact]]:
        """Title and all facts of a row."""
        raise NotImplementedError

    def brief(self, row: R) -> list[Fact]:  # noqa: ARG002 (of most rows all facts are told)
        """What is told of a row before all that is known of it, in the lines that the table leaves."""
        return []

    def totals(self) -> list[Piece]:
        """The line above the table."""
        raise NotImplementedError

    def blamed(self) -> Hashable:
        """Key of the row that the verdict blames; None where there is none."""
        return None

    def compose(self) -> ComposeResult:
        """The line of totals, the table, what orders it, and the details of its row."""
        yield self.bar
        yield self.table
        yield self.ordered_by
        yield self.more

    def shown(self) -> None:
        """Another row may be blamed than when somebody moved the cursor."""
        self._touched = self._touched and self.blamed() == self._stood

    def renew(self) -> None:
        """Rows of another moment are shown."""
        self.table.view.forget()

    def draw(self) -> None:
        """Feed the table."""
        self.table.feed(self.rows())
        blamed = None if self._touched else self.blamed()
        if blamed is not None and blamed != self._stood and self.table.size.height > 1:
            self._stood = blamed
            self.table.select(blamed, middle=True)
        self.draw_around()

    def draw_around(self) -> None:
        """Draw totals, what orders the rows, and the details of the one under the cursor."""
        shown = len(self.table.rows)
        of = [(f" {shown:,} of {plural(self.table.total, self.NOUN)}", Colour.STRONG), (" shown", Colour.DIM)]
        marked = [(f"   ◆ {len(self.table.marked):,} marked", Colour.ACCENT)] if self.table.marked else []
        self.bar.show([*(of if self.narrowed() else []), *self.totals(), *marked])
        column = self.table.column(self.table.sort_key)
        self.ordered_by.display = column is not None
        if column is not None:
            way = "from the last, or highest, on" if self.table.reverse else "from the first, or lowest, on"
            told: list[Piece] = [(" ordered by ", Colour.DIM), (column.title or column.key, Colour.STRONG)]
            told += [(f" {way}", Colour.DIM), (f"   {column.help}" if column.help else "", Colour.TEXT)]
            self.ordered_by.show(told)
        self.draw_details()

    def draw_details(self) -> None:
        """The details of the row under the cursor, where the table leaves lines free."""
        free = self.size.height - 1 - self.ordered_by.display - (len(self.table.rows) + 2)
        row = self.table.current if free >= LEAST else None
        self.more.display = row is not None
        self.table.styles.height = "1fr" if row is None else f"{len(self.table.rows) + 1}"
        if row is not None:
            title, facts = self.facts(row)
            self.more.show(facts_text([*self.brief(row), *facts]), title)

    @on(Table.Changed)
    def touch(self) -> None:
        """Somebody moved the cursor, or ordered the rows."""
        self._touched = True
        self.draw_around()

    def kept(self, rows: Sequence[R]) -> Sequence[R]:
        """What totals are about: the rows that a filter lets through, or all."""
        return self.table.rows if self.narrowed() else rows

    def set_filter(self, text: str) -> None:
        """Show only what the filter lets through, within the scope."""
        self.table.set_filter(f"{self.scope} {text}".strip())
        self.query_text = text
        if self.is_mounted:
            self.draw_around()

    def fields(self) -> list[str]:
        """The columns' titles, as filters write them."""
        return [column.fields[0] for column in self.table.columns]

    def columns_told(self) -> list[tuple[str, str]]:
        """Every column, for the help."""
        return [(column.title or column.key, column.help) for column in self.table.columns]

    def mark(self) -> None:
        """Mark the row."""
        self.table.toggle_mark()
        self.draw_around()

    def here(self) -> Hashable:
        """Key of the row under the cursor."""
        row = self.table.current
        return None if row is None else self.key(row)

    def select(self, key: Hashable) -> None:
        """Stand on a row."""
        self._touched = True
        self.table.feed(self.rows())
        self.table.select(key)

    def node(self) -> str | None:
        """Node of the row under the cursor."""
        row = self.table.current
        return None if row is None else self.node_of(row)

    def chosen_nodes(self) -> list[str]:
        """Nodes of the marked rows, or of the one under the cursor."""
        return list(dict.fromkeys(filter(None, map(self.node_of, self.table.chosen()))))

    def details(self) -> tuple[str, list[Fact]] | None:
        """All that is known of the row under the cursor."""
        row = self.table.current
        return None if row is None else self.facts(row)

    def text(self) -> str:
        """Marked rows, or the one under the cursor, as lines of words."""
        return "\n".join(self.table.words(row) for row in self.table.chosen())
