"""Columns of a table: which are in view, how they share its width, and how their cells are drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, islice
from typing import Generic, NamedTuple, TypeVar

from tui.looks.format import UNKNOWN
from tui.looks.text import Align
from tui.looks.text import cells as cells_of
from tui.looks.theme import Tone
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
    tone: Tone = Tone.TEXT
    most: int = 0
    """Not 0: as wide as the longest of its texts in view, up to this."""
    grow: int = 0
    """Its share of the cells that are left over, as far as its texts in view need them."""
    least: int = 0
    """Not 0: cells with which it is shown as the last one in view rather than not at all."""
    also: tuple[str, ...] = ()
    """Further names of the field in filters."""
    help: str = ""
    """What the title does not say: shown for the column that orders the rows, in the list and in the help."""
    brief: Callable[[R], str] | None = None
    """What is drawn in place of a text that is long: filters and copies have the whole."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the field; the title as filters write it first: ``local rank`` is ``local_rank``."""
        title = self.title.lower().replace(" %", "%").replace(" ", "_")
        return tuple(dict.fromkeys((title or self.key, self.key, *self.also)))

    def piece(self, row: R) -> Piece:
        """Text and tone of one cell, whole."""
        if self.show is not None:
            return self.show(row)
        value = self.value(row)
        if value is None:
            return UNKNOWN, Tone.DIM
        return str(value) if self.form is None or isinstance(value, str) else self.form(value), self.tone

    def drawn(self, row: R) -> Piece:
        """What the cell shows."""
        return self.piece(row) if self.brief is None else (self.brief(row), self.tone)

    def says(self, row: R) -> bool:
        """Whether the cell says anything: an unknown or empty one does not."""
        text = self.piece(row)[0].strip()
        return bool(text) and text != UNKNOWN


class Shown(NamedTuple, Generic[R]):
    """A column that is drawn, and its cells."""

    column: Column[R]
    size: int


class Layout(NamedTuple, Generic[R]):
    """The columns that are drawn, and how many more there are to the left and to the right."""

    shown: list[Shown[R]]
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
    """The first ``frozen`` columns never scroll away and are never hidden.

    A column in which no row has had a value so far is left out until one has, or somebody asks for it.
    """

    def __init__(self, columns: Sequence[Column[R]], frozen: int) -> None:
        self.every = tuple(columns)
        self.silent: frozenset[str] = frozenset()
        """Keys of those in which no row has had a value so far, and that nobody asked for."""
        self._frozen = self._first = frozen
        self._told: set[str] = set()
        self._asked: frozenset[str] = frozenset()
        self._unwanted: frozenset[str] = frozenset()
        self._sizes: dict[str, int] = {}
        self._needed: dict[str, int] = {}
        self._right = 0

    @property
    def fixed(self) -> frozenset[str]:
        """Keys of the columns that are never hidden."""
        return frozenset(column.key for column in self.every[: self._frozen])

    @property
    def hidden(self) -> frozenset[str]:
        """Keys of those that are not shown."""
        return self._unwanted | self.silent

    @property
    def columns(self) -> list[Column[R]]:
        """Those that are not hidden."""
        return [column for column in self.every if column.key not in self.hidden]

    def look(self, rows: Sequence[R], in_view: Sequence[R], ordering: str) -> None:
        """See which columns say something, and how wide those are whose width depends on what is in view."""
        for column in self.every:
            if column.key not in self._told and any(map(column.says, chain(in_view, islice(rows, LOOKED)))):
                self._told.add(column.key)
            if column.most or column.grow:
                longest = max((cells_of(column.drawn(row)[0]) for row in in_view), default=0)
                self._needed[column.key] = longest
                if column.most:
                    wide = max(column.width, self._sizes.get(column.key, 0), min(column.most, longest))
                    self._sizes[column.key] = wide
        kept = self._told | self._asked | self.fixed | {ordering}
        self.silent = frozenset(column.key for column in self.every if rows and column.key not in kept)

    def forget(self) -> None:
        """Begin anew: rows of another moment are shown."""
        self._told.clear()
        self._sizes.clear()

    def hide(self, hidden: Set[str], ordering: str) -> None:
        """Show all columns but these; the frozen ones, and the one that orders the rows, stay."""
        hidden = frozenset(hidden) - self.fixed - {ordering}
        self._asked = (self._asked | (self.silent - hidden)) - hidden
        self._unwanted, self.silent = hidden - self.silent, self.silent & hidden

    def scroll(self, step: int) -> None:
        """Let a column disappear to the left, or come back; nothing happens where none is left over to the right."""
        if step < 0 or self._right:
            self._first = max(self._frozen, min(self._first + step, len(self.columns) - 1))

    def go(self, key: str, width: int, ordering: str) -> None:
        """Bring a column into view, as the first after the frozen ones if it was not to be seen."""
        self.hide(self.hidden - {key}, ordering)
        if key not in {column.key for column, _ in self.layout(width, ordering).shown}:
            self._first = max(self._frozen, [column.key for column in self.columns].index(key))

    def layout(self, width: int, ordering: str) -> Layout[R]:
        """Share ``width`` cells out: the frozen columns, then as many as fit, each whole or not at all.

        The column that orders the rows is always among them. What is left over goes to those that grow, up to what
        they need, then to nobody: it lies at the right end.
        """
        columns = self.columns
        ahead = columns[: self._frozen] + [one for one in columns[self._frozen : self._first] if one.key == ordering]
        rest = columns[self._first :]
        chosen = self._fitting(ahead, rest, width - 1)
        if len(chosen) < len(ahead) + len(rest):  # beside the sign that more lies there is room for fewer
            chosen = self._fitting(ahead, rest, width - 1 - SIGN)
            over = [one for one in rest if one.key == ordering and one not in [column for column, _ in chosen]]
            if over:
                ahead, rest = [*ahead, *over], [one for one in rest if one not in over]
                chosen = self._fitting(ahead, rest, width - 1 - SIGN)
        self._right = len(ahead) + len(rest) - len(chosen)
        room = width - 1 - sum(size + 1 for _, size in chosen) - (SIGN if self._right else 0)
        return Layout(_grown(chosen, room, self._needed), len(columns) - len(ahead) - len(rest), self._right)

    def _fitting(self, ahead: Sequence[Column[R]], rest: Sequence[Column[R]], room: int) -> list[Shown[R]]:
        chosen = [Shown(column, self._sizes.get(column.key, column.width)) for column in ahead]
        room -= sum(size + 1 for _, size in chosen)
        for column in rest:
            wanted = self._sizes.get(column.key, column.width)
            size = min(wanted, room - 1)
            if size < min(column.least or column.width, wanted):
                break
            chosen.append(Shown(column, size))
            room -= size + 1
        return chosen


def _grown(chosen: list[Shown[R]], room: int, needed: Mapping[str, int]) -> list[Shown[R]]:
    """Give columns that grow their shares of ``room`` cells; what one does not need goes to the others."""
    while room > 0:
        growing = [place for place, (column, size) in enumerate(chosen) if column.grow and size < needed[column.key]]
        shares = sum(chosen[place].column.grow for place in growing)
        if not shares:
            break
        part = room
        for place in growing:
            column, size = chosen[place]
            more = min(max(1, part * column.grow // shares), needed[column.key] - size, room)
            chosen[place] = Shown(column, size + more)
            room -= more
    return chosen
