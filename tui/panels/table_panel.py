"""Panels that are one table under a line of totals."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from textual.app import ComposeResult

from hangtop.session.state.job_state import NodeState
from tui.figures.rolling import Rolling
from tui.looks.format import plural
from tui.looks.theme import Tone
from tui.panels.base import ColumnTold, Panel
from tui.scene import Scene
from tui.widgets.bar import Bar
from tui.widgets.lines import Move, Piece
from tui.widgets.table import Column, Table

R = TypeVar("R")
T = TypeVar("T")

BREATH = 0.01
"""Seconds between two parts of a count, in which keys and paints have their turn."""


class TablePanel(Panel, Generic[R]):
    """A panel that is one table under a line of totals."""

    CAN = frozenset({"filter", "sort", "columns", "mark", "enter", "copy", "details", "node", "ranks"})
    FROZEN: ClassVar[int] = 1
    EMPTY: ClassVar[str] = "nothing here yet"

    DEFAULT_CSS = """
    TablePanel .ordered-by { display: none; }
    TablePanel .ordered-by.-on { display: block; }
    """

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.bar = Bar()
        self.ordered_by = Bar(classes="ordered-by")
        self._rolling: list[Rolling[Any]] = []
        self._kept: tuple[list[R], dict[str, list[R]]] = ([], {})
        """The rows that a filter lets through, as the table has them and by node."""
        self.table: Table[R] = Table(
            self.columns(), key=self.key, stale=self.is_stale, frozen=self.FROZEN, empty=self.EMPTY
        )
        self.table.ordered = self._explain
        self.table.moved = self._touch
        self._touched = False
        """Whether somebody moved the cursor: until then it stands on whom the verdict blames."""
        self._stood: Hashable = None
        """The row that it was put on for that."""
        self._counting = False
        """The totals are being counted, and shown when that is done."""

    def rolling(self, of: Callable[[NodeState], T]) -> Rolling[T]:
        """Totals by node that are worked out anew when the filter is another."""
        made = Rolling(of)
        self._rolling.append(made)
        return made

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
        """The line of totals, the table, and what orders it."""
        yield self.bar
        yield self.table
        yield self.ordered_by

    def blamed(self) -> Hashable:
        """Key of the row that the verdict blames; None where there is none."""
        return None

    def shown(self) -> None:
        """Another row may be blamed than when somebody moved the cursor."""
        self._touched = self._touched and self.blamed() == self._stood

    def _touch(self) -> None:
        self._touched = True

    def draw(self) -> None:
        """Feed the table."""
        rows = self.rows()
        blamed = None if self._touched else self.blamed()
        if blamed is not None and blamed != self._stood and self.table.size.height > 1:
            self._stood = blamed
            self.table.feed(rows, at_once=True)
            self.table.select(blamed)
            # first what is half a screen behind it: so there are rows around it
            self.table.bring(min(len(self.table.rows), self.table.cursor + self.table.size.height // 2))
            self.table.show_cursor()
        self.table.feed(rows)
        self._show_totals()
        self._explain()

    def _show_totals(self) -> None:
        """Show the totals; of thousands of nodes they are counted a part at a time, with a pause between two."""
        nodes = self.scene.nodes
        if all(sums.fill(nodes) for sums in self._rolling):
            self.bar.show(self.totals())
        elif not self._counting:
            self._counting = True
            self.bar.show([("  counting …", Tone.DIM)])
            self.set_timer(BREATH, self._count_on)

    def _count_on(self) -> None:
        self._counting = False
        if self.display:
            self._show_totals()

    def _explain(self) -> None:
        """Say what the column means that orders the rows, while one does."""
        column = self.table.column(self.table.sort_key)
        self.ordered_by.set_class(column is not None, "-on")
        if column is not None:
            way = "from the last, or highest, on" if self.table.reverse else "from the first, or lowest, on"
            told: list[Piece] = [(" ordered by ", Tone.DIM), (column.title or column.key, Tone.STRONG)]
            told += [(f" {way}", Tone.DIM), (f"   {column.help}" if column.help else "", Tone.TEXT)]
            self.ordered_by.show(told)

    def kept(self, node: NodeState) -> list[R]:
        """Rows of a node that the filter lets through."""
        rows = self.table.rows
        if rows is not self._kept[0]:
            by_node: dict[str, list[R]] = {}
            for row in rows:
                by_node.setdefault(self.node_of(row), []).append(row)
            self._kept = rows, by_node
        return self._kept[1].get(node.name, [])

    def node_of(self, row: R) -> str:
        """Name of the row's node."""
        raise NotImplementedError

    def shown_of(self, noun: str) -> list[Piece]:
        """How many rows of all the filter lets through; nothing without a filter."""
        if not self.narrowed():
            return []
        shown, every = len(self.table.rows), self.table.total
        return [(f" {shown:,} of {plural(every, noun)}", Tone.STRONG), (" shown", Tone.DIM)]

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
        for sums in self._rolling:
            sums.forget()
        if self.is_attached:
            self._show_totals()

    def fields(self) -> list[str]:
        """The columns' titles, as filters write them."""
        return [column.fields[0] for column in self.table.columns]

    def columns_told(self) -> list[ColumnTold]:
        """Every column, for help and palette."""
        return [ColumnTold(column.key, column.title or column.key, column.help) for column in self.table.columns]

    def go_column(self, key: str) -> None:
        """Bring a column into view."""
        self.table.go_column(key)

    def mark(self) -> None:
        """Mark the row."""
        self.table.toggle_mark()
        self._show_totals()

    def mark_all(self) -> None:
        """Mark every row shown."""
        self.table.mark_all()
        self._show_totals()

    def here(self) -> Hashable:
        """Key of the row under the cursor."""
        row = self.table.current
        return None if row is None else self.key(row)

    def select(self, key: Hashable) -> None:
        """Stand on a row, or on the first of a list of equals."""
        self._touched = True
        self.table.feed(self.rows(), at_once=True)
        self.table.select(key)

    def text(self) -> str:
        """Marked rows, or the one under the cursor, as lines of words."""
        return "\n".join(self.table.words(row) for row in self.table.chosen())
