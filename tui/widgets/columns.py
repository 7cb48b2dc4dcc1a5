"""Columns of a table: how they share its width, and how their cells are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich.style import Style
from textual.strip import Strip

from tui.filter import Value
from tui.format import UNKNOWN
from tui.text import Align, fit
from tui.theme import Ground, Ink, Tone
from tui.widgets.lines import Piece
from tui.widgets.runs import Runs

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """One column: a field of the filter, a sort order and a cell.

    ``value`` is what is compared. The cell shows it as it is, or through ``form`` (a number's), or what ``show`` makes
    of the whole row. ``grow`` is the column's share of the width that is left over. ``also`` are further names of the
    field in filters.
    """

    key: str
    title: str
    width: int
    value: Callable[[R], Value]
    show: Callable[[R], Piece] | None = None
    form: Callable[[float], str] | None = None
    align: Align = "left"
    grow: int = 0
    tone: Tone = Tone.TEXT
    also: tuple[str, ...] = ()
    help: str = ""

    def piece(self, row: R) -> Piece:
        """Text and tone of one cell."""
        if self.show is not None:
            return self.show(row)
        value = self.value(row)
        if value is None:
            return UNKNOWN, Tone.DIM
        return str(value) if self.form is None or isinstance(value, str) else self.form(value), self.tone


KEPT = 1024
"""Texts of a column whose fitted form is kept."""


class Cells(Generic[R]):
    """A column as it is laid out. Its cells say much the same from row to row, so fitted texts are kept."""

    __slots__ = ("_fitted", "column", "piece", "size")

    def __init__(self, column: Column[R], size: int) -> None:
        self.column, self.size = column, size
        self.piece: Callable[[R], Piece] = column.show or column.piece
        self._fitted: dict[str, str] = {}

    def fit(self, text: str) -> str:
        """The text in the column's width, and the space behind it."""
        fitted = self._fitted.get(text)
        if fitted is None:
            if len(self._fitted) >= KEPT:
                self._fitted.clear()
            fitted = self._fitted[text] = fit(text, self.size, self.column.align) + " "
        return fitted


def lay_out(columns: Iterable[Column[R]], width: int) -> list[tuple[Column[R], int]]:
    """As many of the columns as there is room for, with their widths; what is left over goes to those that grow."""
    room = width - 1
    chosen: list[tuple[Column[R], int]] = []
    for column in columns:
        if room <= 1:
            break
        chosen.append((column, min(column.width, room - 1)))
        room -= column.width + 1
    shares = sum(column.grow for column, _ in chosen)
    if room > 0 and shares:
        chosen = [(column, size + room * column.grow // shares) for column, size in chosen]
    return chosen


def heading(layout: Iterable[Cells[R]], arrows: Mapping[str, str], ink: Ink, width: int, *, cut: bool) -> Strip:
    """Titles, an arrow behind that of the column that orders the rows; ``cut`` says that others are to the left."""
    plain, sorted_ = ink.of(Tone.TEXT, Ground.HEADER), ink.of(Tone.ACCENT, Ground.HEADER)
    line, used = Runs(plain, "‹" if cut else " "), 1
    for cells in layout:
        column = cells.column
        arrow = arrows.get(column.key, "")
        line.add(fit(column.title, cells.size - len(arrow), column.align) + arrow + " ", sorted_ if arrow else plain)
        used += cells.size + 1
    line.add(" " * (width - used), plain)
    return line.strip(width)


def drawn(row: R, layout: Iterable[Cells[R]], edge: str, styles: Sequence[Style], width: int) -> Strip:
    """One row behind its ``edge``, in the ``styles`` of tones on its ground."""
    line, used = Runs(styles[Tone.ACCENT], edge), 1
    for cells in layout:
        text, tone = cells.piece(row)
        line.add(cells.fit(text), styles[tone])
        used += cells.size + 1
    line.add(" " * (width - used), styles[Tone.TEXT])
    return line.strip(width)
