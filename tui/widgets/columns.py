"""Columns of a table: how they share its width, and how their cells are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from rich.style import Style
from textual.strip import Strip

from tui.looks.format import UNKNOWN
from tui.looks.text import Align, fit
from tui.looks.text import cells as cells_of
from tui.looks.theme import Ground, Ink, Tone
from tui.ordering.filter import Value
from tui.widgets.lines import Piece
from tui.widgets.runs import Runs

R = TypeVar("R")

ROOMY = 78
"""Cells of a line from which on columns take the width that suits them."""


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """One column: a field of the filter, a sort order and a cell.

    ``value`` is what is compared. The cell shows it as it is, or through ``form`` (a number's), or what ``show`` makes
    of the whole row. ``grow`` is the column's share of the width that is left over, as far as its texts in view need
    it. ``also`` are further names of the field in filters.
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
    least: int = 0
    """Cells with which it is shown as the last one in view rather than not at all; 0: its whole width, or that which
    it has without what is in view."""
    most: int = 0
    """Not 0: as wide as the longest of its texts, up to this; for texts that do not change by the tick."""
    seen: int = 0
    """Not 0: from its width on as wide as the longest of its texts in view, up to this; for what changes seldom."""
    roomy: int = 0
    """Not 0: its width where a line has :data:`ROOMY` cells, for texts that are worth more than a further column."""
    also: tuple[str, ...] = ()
    help: str = ""
    """What the title does not say: shown for the column that orders the rows, in the chooser and in the help."""

    brief: Callable[[R], str] | None = None
    """What is drawn in place of a text that is long: filters and copies have the whole."""

    @property
    def field(self) -> str:
        """The title as filters write it: ``local rank`` is ``local_rank``, ``workers %`` is ``workers%``."""
        return self.title.lower().replace(" %", "%").replace(" ", "_")

    @property
    def fields(self) -> tuple[str, ...]:
        """All names of the field, its title's first."""
        return tuple(dict.fromkeys((self.field or self.key, self.key, *self.also)))

    def piece(self, row: R) -> Piece:
        """Text and tone of one cell."""
        if self.show is not None:
            return self.show(row)
        value = self.value(row)
        if value is None:
            return UNKNOWN, Tone.DIM
        return str(value) if self.form is None or isinstance(value, str) else self.form(value), self.tone

    def drawn(self, row: R) -> Piece:
        """What the cell shows."""
        return self.piece(row) if self.brief is None else (self.brief(row), self.tone)


def says(column: Column[R], row: R) -> bool:
    """Whether a cell says anything: an unknown or empty one does not."""
    text = column.piece(row)[0].strip()
    return bool(text) and text != UNKNOWN


KEPT = 1024
"""Texts of a column whose fitted form is kept."""


class Cells(Generic[R]):
    """A column as it is laid out. Its cells say much the same from row to row, so fitted texts are kept."""

    __slots__ = ("_fitted", "column", "piece", "size")

    def __init__(self, column: Column[R], size: int) -> None:
        self.column, self.size = column, size
        self.piece: Callable[[R], Piece] = column.drawn if column.brief else column.show or column.piece
        self._fitted: dict[str, str] = {}

    def fit(self, text: str) -> str:
        """The text in the column's width, and the space behind it."""
        fitted = self._fitted.get(text)
        if fitted is None:
            if len(self._fitted) >= KEPT:
                self._fitted.clear()
            fitted = self._fitted[text] = fit(text, self.size, self.column.align) + " "
        return fitted


class Layout(NamedTuple, Generic[R]):
    """The columns that are drawn, and how many more there are to the left and to the right."""

    cells: list[Cells[R]]
    left: int
    right: int

    def column_at(self, x: int) -> Column[R] | None:
        """The column whose title is at a cell of the header."""
        begin = 1
        for cells in self.cells:
            if begin <= x <= begin + cells.size:
                return cells.column
            begin += cells.size + 1
        return None


SIGN = 4
"""Cells at the right end of the header that say how many columns lie there: `` 12›``."""


EVERY = 2048
"""Rows of which each text is measured; of more, each eighth."""


def widths_of(columns: Sequence[Column[R]], rows: Sequence[R]) -> dict[str, int]:
    """Widths, by key, of the columns that are as wide as their longest text."""
    looked = rows if len(rows) <= EVERY else [*rows[::8], rows[-1]]
    found: dict[str, int] = {}
    for column in columns:
        if column.most:
            longest = max((cells_of(text) for text in {column.drawn(row)[0] for row in looked}), default=0)
            found[column.key] = max(cells_of(column.title) + 1, min(column.most, longest))
    return found


def in_view_of(columns: Sequence[Column[R]], rows: Sequence[R]) -> dict[str, int]:
    """Widths, by key, of the columns that are as wide as what of them is in view."""
    return {
        column.key: max(column.width, *(min(column.seen, cells_of(column.drawn(row)[0])) for row in rows))
        for column in columns
        if column.seen and rows
    }


STEADY = 8
"""Cells by which a column that grows stays wider than what is in view needs, rather than shift all to its right."""


def needed_of(columns: Sequence[Column[R]], rows: Sequence[R], before: Mapping[str, int]) -> dict[str, int]:
    """Widths, by key, beyond which columns that grow would leave a hole in the line; ``before`` is what was needed."""
    found: dict[str, int] = {}
    for column in columns:
        if column.grow:
            most = max((cells_of(column.drawn(row)[0]) for row in rows), default=0)
            found[column.key] = max(most, min(before.get(column.key, 0), most + STEADY))
    return found


def lay_out(
    columns: Sequence[Column[R]],
    width: int,
    *,
    frozen: int,
    first: int,
    pinned: str = "",
    sizes: Mapping[str, int] | None = None,
    needed: Mapping[str, int] | None = None,
) -> Layout[R]:
    """Share ``width`` cells out: the ``frozen`` columns, then those from ``first`` on, each whole or not at all.

    The column with the key ``pinned``, which orders the rows, is always among them. What is left over goes to those
    that grow, up to what they ``needed``, by key, then to nobody: it lies at the right end. ``sizes`` are widths, by
    key, of columns that have another one than their own.
    """
    roomy = {column.key: column.roomy for column in columns if column.roomy and width >= ROOMY}
    sizes = {**roomy, **(sizes or {})}
    ahead = list(columns[:frozen])
    ahead += [column for column in columns[frozen:first] if column.key == pinned]
    rest = list(columns[first:])
    chosen = _fitting(ahead, rest, width - 1, sizes)
    if len(chosen) < len(ahead) + len(rest):
        # beside the sign that more lies to the right there is room for fewer
        chosen = _fitting(ahead, rest, width - 1 - SIGN, sizes)
        shown = {column.key for column, _ in chosen}
        if over := [column for column in rest if column.key == pinned and column.key not in shown]:
            ahead, rest = [*ahead, *over], [column for column in rest if column not in over]
            chosen = _fitting(ahead, rest, width - 1 - SIGN, sizes)
    left_out = len(ahead) + len(rest) - len(chosen)
    room = width - 1 - sum(size + 1 for _, size in chosen) - (SIGN if left_out else 0)
    grown = _grown(chosen, room, {} if needed is None else needed)
    return Layout(
        [Cells(column, size) for column, size in grown],
        len(columns) - len(ahead) - len(rest),
        left_out,
    )


def _fitting(
    ahead: Iterable[Column[R]], rest: Iterable[Column[R]], room: int, sizes: Mapping[str, int]
) -> list[tuple[Column[R], int]]:
    """The columns that stand ahead, and as many of the rest as there is room for, with their widths."""
    chosen = [(column, sizes.get(column.key, column.width)) for column in ahead]
    room -= sum(size + 1 for _, size in chosen)
    for column in rest:
        wanted = sizes.get(column.key, column.width)
        size = min(wanted, room - 1)
        if size < min(column.least or (column.width if column.seen else wanted), wanted):
            break
        chosen.append((column, size))
        room -= size + 1
    return chosen


def _grown(chosen: list[tuple[Column[R], int]], room: int, needed: Mapping[str, int]) -> list[tuple[Column[R], int]]:
    """Give columns that grow their shares of ``room`` cells; what one does not need goes to the others."""
    while room > 0:
        open_ = {column.key for column, size in chosen if column.grow and size < needed.get(column.key, size)}
        shares = sum(column.grow for column, _ in chosen if column.key in open_)
        if not shares:
            break
        part, given = room, 0
        for place, (column, size) in enumerate(chosen):
            if column.key in open_:
                more = min(max(1, part * column.grow // shares), needed[column.key] - size, room - given)
                chosen[place], given = (column, size + more), given + more
        room -= given
    return chosen


def heading(layout: Layout[R], arrows: Mapping[str, str], ink: Ink, width: int) -> Strip:
    """Titles, an arrow behind that of the column that orders the rows; signs of what lies to the left and right."""
    plain, sorted_ = ink.of(Tone.TEXT, Ground.HEADER), ink.of(Tone.ACCENT, Ground.HEADER)
    line, used = Runs(plain, "‹" if layout.left else " "), 1
    for cells in layout.cells:
        column = cells.column
        arrow = arrows.get(column.key, "")
        line.add(_title(column, cells.size, arrow), sorted_ if arrow else plain)
        used += cells.size + 1
    if layout.right:
        line.add(" " * (width - used - SIGN), plain)
        line.add(f"{layout.right:>{SIGN - 1}}›", sorted_)
    else:
        line.add(" " * (width - used), plain)
    return line.strip(width)


def _title(column: Column[R], size: int, arrow: str) -> str:
    """A column's title and the cell behind it; the arrow stands there where the title fills its own."""
    if column.align == "right" or len(column.title) >= size:
        return fit(column.title, size, column.align) + (arrow or " ")
    return fit(column.title + arrow, size) + " "


def ground_of(*, stale: bool, marked: bool, at_cursor: bool) -> Ground:
    """What a row lies on."""
    if stale:
        return Ground.STALE_CURSOR if at_cursor else Ground.STALE
    if marked:
        return Ground.CURSOR_MARKED if at_cursor else Ground.MARKED
    return Ground.CURSOR if at_cursor else Ground.PLAIN


def drawn(row: R, layout: Iterable[Cells[R]], edge: str, styles: Sequence[Style], width: int) -> Strip:
    """One row behind its ``edge``, in the ``styles`` of tones on its ground."""
    line, used = Runs(styles[Tone.ACCENT], edge), 1
    for cells in layout:
        text, tone = cells.piece(row)
        line.add(cells.fit(text), styles[tone])
        used += cells.size + 1
    line.add(" " * (width - used), styles[Tone.TEXT])
    return line.strip(width)
