"""Which columns of a table are in view: those that are not hidden, from the one that was scrolled to on."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Generic, TypeVar

from tui.widgets.columns import Column, Layout, in_view_of, lay_out, needed_of, widths_of

R = TypeVar("R")

NOT_YET = (0, "")


class InView(Generic[R]):
    """The first ``frozen`` columns never scroll away and are never hidden."""

    def __init__(self, columns: Sequence[Column[R]], frozen: int) -> None:
        self.every = tuple(columns)
        self.columns = self.every
        """Those that are not hidden."""
        self.hidden: frozenset[str] = frozenset()
        self._frozen = self._first = frozen
        self._sizes: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        self._needed: dict[str, int] = {}
        self._laid_out: tuple[tuple[int, str], Layout[R]] = (NOT_YET, Layout([], 0, 0))

    def take_columns(self, columns: Sequence[Column[R]]) -> None:
        """Have other columns from now on, among which are all that there were."""
        self.every = tuple(columns)
        self.columns = tuple(column for column in self.every if column.key not in self.hidden)
        self._laid_out = (NOT_YET, Layout([], 0, 0))

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
        self.hidden = frozenset(hidden) - self.fixed - {ordering}
        self.columns = tuple(column for column in self.every if column.key not in self.hidden)
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
