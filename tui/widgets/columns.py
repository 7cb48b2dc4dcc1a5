"""Columns of a table, and how they share its width."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tui.filter import Value
from tui.format import UNKNOWN
from tui.text import Align
from tui.theme import Tone
from tui.widgets.lines import Piece

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
