"""Columns of a table: their cells, and how the visible ones share the width."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Generic, NamedTuple, TypeVar

from tui.looks.format import UNKNOWN
from tui.looks.text import Align, cells
from tui.looks.theme import Colour
from tui.ordering.filter import Value
from tui.widgets.lines import Piece

R = TypeVar("R")

SIGN = 4
"""Cells at the right end of the header for the number of hidden columns: `` 12›``."""
LOOKED = 256
"""Rows, besides the visible ones, that are searched for a value of a column that had none so far."""


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """One column: a field of the filter, a sort order and a cell.

    ``value`` is for comparisons. The cell shows the result of ``show`` for the row, else the value, a number through
    ``form``.
    """

    key: str
    title: str
    width: int
    """Least width in cells."""
    value: Callable[[R], Value]
    show: Callable[[R], Piece] | None = None
    form: Callable[[float], str] | None = None
    align: Align = "left"
    colour: Colour = Colour.TEXT
    most: int = 0
    """If not 0: the column grows with its longest visible text, up to this."""
    help: str = ""
    """Meaning of the column, for the help."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the field, first the title in filter form: ``local rank`` is ``local_rank``."""
        title = self.title.lower().replace(" %", "%").replace(" ", "_")
        return tuple(dict.fromkeys((title or self.key, self.key)))

    def piece(self, row: R) -> Piece:
        """Uncut text and colour of one cell."""
        if self.show is not None:
            return self.show(row)
        value = self.value(row)
        if value is None:
            return UNKNOWN, Colour.DIM
        return str(value) if self.form is None or isinstance(value, str) else self.form(value), self.colour

    def says(self, row: R) -> bool:
        """True unless the cell is unknown or empty."""
        text = self.piece(row)[0].strip()
        return bool(text) and text != UNKNOWN


class Layout(NamedTuple, Generic[R]):
    """The visible columns with their widths, and the numbers of hidden columns to the left and right."""

    shown: list[tuple[Column[R], int]]
    left: int
    right: int

    def column_at(self, x: int) -> Column[R] | None:
        """The column at cell ``x`` of a line; None beyond the last column."""
        begin = 1
        for column, size in self.shown:
            if begin <= x <= begin + size:
                return column
            begin += size + 1
        return None


class ColumnsInView(Generic[R]):
    """The columns to draw: the first ``frozen`` never scroll away, and columns without any value are omitted."""

    def __init__(self, columns: Sequence[Column[R]], frozen: int) -> None:
        self.columns = list(columns)
        """Columns with values, and those not yet searched."""
        self._every = tuple(columns)
        self._frozen = self._first = frozen
        self._filled: set[str] = set()
        self._sizes: dict[str, int] = {}
        self._right = 0

    def look(self, rows: Sequence[R], in_view: Sequence[R], ordering: str) -> None:
        """Find columns with values, and fit the widths of growing columns to the visible rows."""
        for column in self._every:
            if column.key not in self._filled and any(map(column.says, chain(in_view, islice(rows, LOOKED)))):
                self._filled.add(column.key)
            if column.most:
                longest = max((cells(column.piece(row)[0]) for row in in_view), default=0)
                known = self._sizes.get(column.key, column.width)
                self._sizes[column.key] = max(known, min(column.most, longest))
        kept = self._filled | {ordering} | {column.key for column in self._every[: self._frozen]}
        self.columns = [column for column in self._every if not rows or column.key in kept]

    def forget(self) -> None:
        """Forget values and widths, because rows of another moment are shown."""
        self._filled.clear()
        self._sizes.clear()

    def scroll(self, step: int) -> None:
        """Scroll by one column; not further right than the last column."""
        if step < 0 or self._right:
            self._first = max(self._frozen, min(self._first + step, len(self.columns) - 1))

    def layout(self, width: int, ordering: str) -> Layout[R]:
        """Distribute ``width`` cells: frozen columns, the column that orders the rows, then as many as fit.

        A growing column shrinks to its least width if only that fits.
        """
        ahead = [*self.columns[: self._frozen], *(it for it in self.columns[self._frozen :] if it.key == ordering)]
        rest = [column for column in self.columns[self._first :] if column.key != ordering]
        shown = self._fitting([*ahead, *rest], width - 1)
        if len(shown) < len(ahead) + len(rest):  # leave room for the number of hidden columns
            shown = self._fitting([*ahead, *rest], width - 1 - SIGN)
        self._right = len(ahead) + len(rest) - len(shown)
        return Layout(shown, len(self.columns) - len(ahead) - len(rest), self._right)

    def _fitting(self, columns: Sequence[Column[R]], room: int) -> list[tuple[Column[R], int]]:
        shown: list[tuple[Column[R], int]] = []
        for place, column in enumerate(columns):
            size = min(self._sizes.get(column.key, column.width), room - 1)
            if size < column.width and place >= self._frozen:
                break
            shown.append((column, max(1, size)))
            room -= size + 1
        return shown
