"""Panels that are one table under a line of totals, with the details of its row where the table leaves lines free."""

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
"""Lines that a table leaves free from which on the details of its row stand there."""
CAN = frozenset({"filter", "sort", "enter", "copy", "details", "node", "ranks"})


@dataclass(frozen=True, slots=True)
class TableSpec(Generic[R]):
    """What a panel of rows is: its rows, their columns, and what is known of one."""

    name: str
    noun: str
    """One row, in words."""
    columns: Callable[[ViewModel], Sequence[Column[R]]]
    rows: Callable[[ViewModel], Sequence[R]]
    key: Callable[[R], Hashable]
    """What a row is known by from tick to tick."""
    node: Callable[[R], str | None]
    """Name of its node."""
    ranks: Callable[[ViewModel, R], set[int]]
    """Ranks that it stands for."""
    stale: Callable[[ViewModel, R], bool]
    """Whether its numbers are old."""
    facts: Callable[[ViewModel, R], tuple[str, list[Fact]]]
    """Title and all that is known of it."""
    enter: Callable[[ViewModel, R], Place | None]
    """What lies behind it."""
    blamed: Callable[[ViewModel], Hashable]
    """Key of the row that the verdict blames; None where there is none."""
    totals: Callable[[ViewModel, Sequence[R]], list[Piece]]
    """The line above the table, about these rows: those that a filter lets through, or all."""
    empty: Callable[[ViewModel], str]
    """What is said where there is no row."""
    brief: Callable[[ViewModel, R], list[Fact]] = lambda model, row: []  # noqa: ARG005 (of most rows all facts are told)
    """What is told of a row before all that is known of it, in the lines that the table leaves."""
    can: frozenset[str] = CAN
    frozen: int = 2
    """Columns that never scroll away."""

    def __call__(self, model: ViewModel) -> Panel:
        """Make the panel."""
        return TablePanel(model, self)


class TablePanel(Panel, Generic[R]):
    """The panel of a :class:`TableSpec`."""

    def __init__(self, model: ViewModel, spec: TableSpec[R]) -> None:
        super().__init__(model, spec.name)
        self.spec = spec
        self.bar, self.more = Bar(), TextView(hint="i all")
        self.more.can_focus = False
        self.table: Table[R] = Table(
            spec.columns(model), key=spec.key, stale=lambda row: spec.stale(model, row), frozen=spec.frozen
        )
        self._touched = False
        """Whether somebody moved the cursor: until then it stands on what the verdict blames."""
        self._stood: Hashable = None
        """The row that it was put on for that."""

    @property
    def can(self) -> frozenset[str]:
        """What its rows can do."""
        return self.spec.can

    @property
    def main(self) -> Lines:
        """The table."""
        return self.table

    def compose(self) -> ComposeResult:
        """The line of totals, the table, and the details of its row."""
        yield self.bar
        yield self.table
        yield self.more

    def shown(self) -> None:
        """Another row may be blamed than when somebody moved the cursor."""
        self._touched = self._touched and self.spec.blamed(self.model) == self._stood

    def renew(self) -> None:
        """Rows of another moment are shown."""
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
        """Draw totals, and the details of the row under the cursor."""
        rows, totals = self.table.rows, self.spec.totals(self.model, self.table.rows)
        if self.narrowed():
            of = f" {len(rows):,} of {count(self.table.total, self.spec.noun)} shown"
            totals = [(of, Colour.STRONG), ("  ", Colour.DIM), *totals]
        self.bar.show(totals)
        self.draw_details()

    def draw_details(self) -> None:
        """The details of the row under the cursor, where the table leaves lines free."""
        free = self.size.height - 1 - (len(self.table.rows) + 2)
        row = self.table.current if free >= LEAST else None
        self.more.display = row is not None
        self.table.styles.height = "1fr" if row is None else f"{len(self.table.rows) + 1}"
        if row is not None:
            title, facts = self.spec.facts(self.model, row)
            self.more.show(facts_text([*self.spec.brief(self.model, row), *facts]), title)

    @on(Table.Changed)
    def touch(self) -> None:
        """Somebody moved the cursor, or ordered the rows: the totals are as they were."""
        self._touched = True
        self.draw_details()

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

    def enter(self) -> Place | None:
        """To what lies behind the row."""
        row = self.table.current
        return None if row is None else self.spec.enter(self.model, row)

    def here(self) -> Hashable:
        """Key of the row under the cursor."""
        row = self.table.current
        return None if row is None else self.spec.key(row)

    def select(self, key: Hashable) -> None:
        """Stand on a row: by its key, or by a rank that it stands for."""
        rows = self.spec.rows(self.model)
        if isinstance(key, int):
            key = next((self.spec.key(row) for row in rows if key in self.spec.ranks(self.model, row)), None)
        self._touched = True
        self.table.feed(rows)
        self.table.select(key)

    def selection(self) -> Selection:
        """The row under the cursor; a line of its words is copied."""
        row, spec = self.table.current, self.spec
        if row is None:
            return Selection()
        title, facts = spec.facts(self.model, row)
        return Selection(spec.node(row), spec.ranks(self.model, row), title, facts, self.table.words(row))


def counts(told: Sequence[tuple[int, str, Colour]]) -> list[Piece]:
    """What there is any of, side by side."""
    return [(f"   {text}", colour) for number, text, colour in told if number]
