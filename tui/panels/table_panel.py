"""Panels that are one table under a line of totals."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, cast

from textual.app import ComposeResult

from tui.panels.base import Panel
from tui.scene import Scene
from tui.widgets.bar import Bar
from tui.widgets.lines import Move, Piece
from tui.widgets.table import Column, Table

if TYPE_CHECKING:
    from tui.app import HangtopApp

R = TypeVar("R")


class TablePanel(Panel, Generic[R]):
    """A panel that is one table under a line of totals."""

    CAN = frozenset({"filter", "sort", "mark", "enter", "copy", "details", "node", "ranks"})
    FROZEN: ClassVar[int] = 1
    EMPTY: ClassVar[str] = "nothing here yet"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.bar = Bar()
        self.table: Table[R] = Table(
            self.columns(), key=self.key, stale=self.is_stale, frozen=self.FROZEN, empty=self.EMPTY
        )

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

    def totals(self) -> list[Piece]:
        """The line above the table."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """The line of totals, then the table."""
        yield self.bar
        yield self.table

    def draw(self) -> None:
        """Feed the table."""
        self.table.feed(self.rows())
        self.bar.show(self.totals())

    def move(self, how: Move) -> None:
        """Move the cursor."""
        self.table.move(how)

    def set_filter(self, text: str) -> None:
        """Show only what the filter lets through, within the scope."""
        before, self.query_text = self.query_text, text
        try:
            self.table.set_filter(self.narrowed())
        except ValueError:
            self.query_text = before
            raise

    def fields(self) -> list[str]:
        """Keys of the columns."""
        return [column.key for column in self.table.columns]

    def mark(self) -> None:
        """Mark the row."""
        self.table.toggle_mark()
        self.bar.show(self.totals())

    def mark_all(self) -> None:
        """Mark every row shown."""
        self.table.mark_all()
        self.bar.show(self.totals())

    def here(self) -> Hashable:
        """Key of the row under the cursor."""
        row = self.table.current
        return None if row is None else self.key(row)

    def select(self, key: Hashable) -> None:
        """Stand on a row, or on the first of a list of equals."""
        self.table.feed(self.rows(), at_once=True)
        self.table.select(key)

    def text(self) -> str:
        """Marked rows, or the one under the cursor, as lines of words."""
        return "\n".join(self.table.words(row) for row in self.table.chosen())

    async def on_table_entered(self, event: Table.Entered) -> None:
        """A row was clicked twice."""
        event.stop()
        await cast("HangtopApp", self.app).action_do("enter")
