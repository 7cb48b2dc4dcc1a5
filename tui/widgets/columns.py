"""Columns of a table: which are in view, how they share its width, and how their cells are drawn."""

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
"""Cells at the right end of the header that say how many columns lie there: `` 12›``."""
LOOKED = 256
"""Rows, beside those in view, in which a value is looked for of columns in which none has had one."""


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """One column: a field of the filter, a sort order and a cell.

    ``value`` is what is compared. The cell shows it as it is, or through ``form`` (a number's), or what ``show`` makes
    of the whole row.
    """

    key: str
    title: str
    width: int
    """Cells at the least."""
    value: Callable[[R], Value]
    show: Callable[[R], Piece] | None = None
    form: Callable[[float], str] | None = None
    align: Align = "left"
    colour: Colour = Colour.TEXT
    most: int = 0
    """Not 0: as wide as the longest of its texts in view, up to this."""
    help: str = ""
    """What the title does not say: shown for the column that orders the rows, and in the help."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the field; the title as filters write it first: ``local rank`` is ``local_rank``."""
        title = self.title.lower().replace(" %", "%").replace(" ", "_")
        return tuple(dict.fromkeys((title or self.key, self.key)))

    def piece(self, row: R) -> Piece:
        """Text and colour of one cell, whole."""
        if self.show is not None:
            return self.show(row)
        value = self.value(row)
        if value is None:
            return UNKNOWN, Colour.DIM
        return str(value) if self.form is None or isinstance(value, str) else self.form(value), self.colour

    def says(self, row: R) -> bool:
        """Whether the cell says anything: an unknown or empty one does not."""
        text = self.piece(row)[0].strip()
        return bool(text) and text != UNKNOWN


class Layout(NamedTuple, Generic[R]):
    """The columns that are drawn with their cells, and how many more there are to the left and to the right."""

    shown: list[tuple[Column[R], int]]
    left: int
    right: int

    def column_at(self, x: int) -> Column[R] | None:
        """The column at a cell of a line."""
        begin = 1
        for column, size in self.shown:
            if begin <= x <= begin + size:
                return column
            begin += size + 1
        return None


class ColumnsInView(Generic[R]):
    """The first ``frozen`` columns never scroll away; one in which no row has had a value so far is left out."""

    def __init__(self, columns: Sequence[Column[R]], frozen: int) -> None:
        self.columns = list(columns)
        """Those that say something, or of which that is not known yet."""
        self._every = tuple(columns)
        self._frozen = self._first = frozen
        self._told: set[str] = set()
        self._sizes: dict[str, int] = {}
        self._right = 0

    def look(self, rows: Sequence[R], in_view: Sequence[R], ordering: str) -> None:
        """See which columns say something, and how wide those are whose width depends on what is in view."""
        for column in self._every:
            if column.key not in self._told and any(map(column.says, chain(in_view, islice(rows, LOOKED)))):
                self._told.add(column.key)
            if column.most:
                longest = max((cells(column.piece(row)[0]) for row in in_view), default=0)
                known = self._sizes.get(column.key, column.width)
                self._sizes[column.key] = max(known, min(column.most, longest))
        kept = self._told | {ordering} | {column.key for column in self._every[: self._frozen]}
        self.columns = [column for column in self._every if not rows or column.key in kept]

    def forget(self) -> None:
        """Begin anew: rows of another moment are shown."""
        self._told.clear()
        self._sizes.clear()

    def scroll(self, step: int) -> None:
        """Let a column disappear to the left, or come back; nothing happens where none is left over to the right."""
        if step < 0 or self._right:
            self._first = max(self._frozen, min(self._first + step, len(self.columns) - 1))

    def layout(self, width: int, ordering: str) -> Layout[R]:
        """Share ``width`` cells out: the frozen columns, the one that orders the rows, then as many as fit.

        The last one is cut down to its least width where that lets it be seen at all.
        """
        ahead = [*self.columns[: self._frozen], *(one for one in self.columns[self._frozen :] if one.key == ordering)]
        rest = [one for one in self.columns[self._first :] if one.key != ordering]
        shown = self._fitting([*ahead, *rest], width - 1)
        if len(shown) < len(ahead) + len(rest):  # beside the sign that more lies there is room for fewer
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
