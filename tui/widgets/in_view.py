"""Which columns of a table are in view: those that say something and are not hidden, from the one scrolled to on."""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import chain, islice
from typing import Generic, TypeVar

from tui.widgets.columns import Column, Layout, in_view_of, lay_out, needed_of, says, widths_of

R = TypeVar("R")

NOT_YET = (0, "")
LOOKED = 128
"""Rows in which, each time, a value is looked for of the columns that no row has had one in, beside those in view."""


class InView(Generic[R]):
    """The first ``frozen`` columns never scroll away and are never hidden.

    A column in which no row has had a value so far is left out until one has, or somebody asks for it.
    """

    def __init__(self, columns: Sequence[Column[R]], frozen: int) -> None:
        self.every = tuple(columns)
        self.columns = self.every
        """Those that are not hidden."""
        self._unwanted: frozenset[str] = frozenset()
        """Keys of those that somebody hid."""
        self._asked: frozenset[str] = frozenset()
        """Keys of those that somebody wants to see, whether they say something or not."""
        self.silent: frozenset[str] = frozenset()
        """Keys of those that nobody asked for and in which no row has had a value so far."""
        self._told: set[str] = set()
        """Keys of those in which one has."""
        self._looked = 0
        """The row to go on looking from."""
        self._frozen = self._first = frozen
        self._sizes: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        self._needed: dict[str, int] = {}
        self._laid_out: tuple[tuple[int, str], Layout[R]] = (NOT_YET, Layout([], 0, 0))

    def take_columns(self, columns: Sequence[Column[R]]) -> None:
        """Have other columns from now on, among which are all that there were."""
        self.every = tuple(columns)
        self._choose()
        self._laid_out = (NOT_YET, Layout([], 0, 0))

    @property
    def hidden(self) -> frozenset[str]:
        """Keys of those that are not shown: unwanted, or without a value so far."""
        return self._unwanted | self.silent

    def _choose(self) -> None:
        """Leave the hidden ones out; the first one shown stays the first, as far as it is there."""
        first = self.columns[self._first].key if self._first < len(self.columns) else ""
        hidden = self.hidden
        self.columns = tuple(column for column in self.every if column.key not in hidden)
        if self._first > self._frozen:
            places = [place for place, column in enumerate(self.columns) if column.key == first]
            self._first = max(self._frozen, min(places[0] if places else self._first, len(self.columns) - 1))

    def listen(self, rows: Sequence[R], in_view: Sequence[R], ordering: str) -> None:
        """Look for values in the columns that said nothing so far; before there is a row, all are shown."""
        if not rows or len(self._told) == len(self.every):
            return
        self._looked = 0 if self._looked >= len(rows) else self._looked
        some = islice(rows, self._looked, self._looked + LOOKED)
        self._looked += LOOKED
        looked = [*chain(in_view, some)]
        for column in self.every:
            if column.key not in self._told and any(says(column, row) for row in looked):
                self._told.add(column.key)
        kept = self._told | self._asked | self.fixed | {ordering}
        silent = frozenset(column.key for column in self.every if column.key not in kept)
        if silent != self.silent:
            self.silent = silent
            self._choose()
            self._laid_out = (NOT_YET, self._laid_out[1])

    def forget(self, keys: Set[str]) -> None:
        """Leave these columns out until a row has a value again, as if none had had one."""
        self._told -= keys

    def measure(self, rows: Sequence[R]) -> None:
        """Make the columns that are as wide as their longest text fit these rows."""
        sizes = widths_of(self.every, rows)
        if sizes != self._sizes:
            self._sizes = sizes
            self._laid_out = (NOT_YET, self._laid_out[1])

    def see(self, rows: Sequence[R]) -> None:
        """Make the columns that are as wide as what is in view fit these rows."""
        seen, needed = in_view_of(self.every, rows), needed_of(self.columns, rows, self._needed)
        if seen != self._seen or needed != self._needed:
            self._seen, self._needed = seen, needed
            self._laid_out = (NOT_YET, self._laid_out[1])

    @property
    def fixed(self) -> frozenset[str]:
        """Keys of the columns that are never hidden."""
        return frozenset(column.key for column in self.every[: self._frozen])

    def layout(self, width: int, ordering: str) -> Layout[R]:
        """What is drawn in ``width`` cells; the column that orders the rows, by its key, is always among them."""
        if self._laid_out[0] != (width, ordering):
            sizes = {**self._sizes, **self._seen}
            made = lay_out(
                self.columns, width, frozen=self._frozen, first=self._first, pinned=ordering, sizes=sizes,
                needed=self._needed,
            )  # fmt: skip
            self._laid_out = ((width, ordering), made)
        return self._laid_out[1]

    def scroll(self, step: int) -> None:
        """Let columns disappear to the left, or come back; nothing happens where none is left over to the right."""
        if step < 0 or self._laid_out[1].right:
            self._begin_at(self._first + step)

    def hide(self, hidden: Set[str], ordering: str) -> None:
        """Show all columns but these; the frozen ones, and the one that orders the rows, stay."""
        hidden = frozenset(hidden) - self.fixed - {ordering}
        self._asked = (self._asked | (self.silent - hidden)) - hidden
        self._unwanted, self.silent = hidden - self.silent, self.silent & hidden
        self._choose()
        self._begin_at(self._first)

    def go(self, key: str, width: int, ordering: str) -> None:
        """Bring a column into view, as the first after the frozen ones if it was not to be seen."""
        self.hide(self.hidden - {key}, ordering)
        keys = [column.key for column in self.columns]
        if key in keys and key not in {cells.column.key for cells in self.layout(width, ordering).cells}:
            self._begin_at(keys.index(key))

    def _begin_at(self, place: int) -> None:
        self._first = max(self._frozen, min(place, len(self.columns) - 1))
        self._laid_out = (NOT_YET, self._laid_out[1])
