"""A table of fixed-width columns drawn line by line: sorted, filtered, marked, scrolled both ways."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Sequence, Set
from typing import Generic, TypeVar

from textual import events
from textual.strip import Strip

from tui.looks.text import line_of
from tui.looks.theme import Ground, Tone
from tui.ordering.filter import Filter, parse
from tui.widgets.arranging import AT_ONCE, BUSY_SHARE, Ordering, arranged, arranging
from tui.widgets.columns import Column, Layout, drawn, ground_of, heading
from tui.widgets.in_view import InView
from tui.widgets.lines import Lines, Move, strip_of

__all__ = ["Column", "Table"]

R = TypeVar("R")


class Table(Lines, Generic[R]):
    """Rows of one kind; panels feed it once a tick. The cursor stays on its row when the order changes."""

    def __init__(
        self,
        columns: Sequence[Column[R]],
        *,
        key: Callable[[R], Hashable],
        stale: Callable[[R], bool],
        frozen: int = 1,
        empty: str = "nothing here yet",
    ) -> None:
        super().__init__()
        self.columns = tuple(columns)
        self.in_view = InView(self.columns, frozen)
        self.rows: list[R] = []
        """What the filter lets through, in order."""
        self.total = 0
        """Rows before the filter."""
        self.cursor = 0
        self.marked: set[Hashable] = set()
        self.sort_key = ""
        """Key of the column that orders the rows; empty keeps the order in which they were fed."""
        self.reverse = False
        self.filter = Filter("", ())
        self.empty = empty
        self.moved: Callable[[], None] | None = None
        """Called when the cursor stands on another row."""
        self.ordered: Callable[[], None] | None = None
        """Called when another column orders the rows."""
        self._key, self._stale = key, stale
        self._test: Callable[[R], bool] | None = None
        self._fed: Sequence[R] = ()
        self._current: Hashable = None
        self._arranged_at, self._cost = 0.0, 0.0
        self._turn, self._busy = 0, False
        """Arrangements begun so far, of which only the latest counts, and whether it is under way."""
        self._kept: dict[tuple[int, Ground, bool], Strip] = {}
        """Rows painted since the last tick by place, ground and mark: scrolling shows most of them again."""

    def take_columns(self, columns: Sequence[Column[R]]) -> None:
        """Have other columns from now on, among which are all that there were."""
        self.columns = tuple(columns)
        self.in_view.take_columns(self.columns)
        self._kept.clear()

    # --- rows ----------------------------------------------------------------------------------------------------

    def feed(self, rows: Sequence[R], *, at_once: bool = False) -> None:
        """Take the latest rows and draw. ``at_once`` sorts even when it was done a moment ago."""
        same = len(rows) == self.total
        if rows is not self._fed:
            self.in_view.measure(rows)
        self._kept.clear()
        self._fed, self.total = rows, len(rows)
        if at_once:
            self._arrange_now()
        elif not same or (not self._busy and time.perf_counter() - self._arranged_at > self._cost / BUSY_SHARE):
            self._arrange()
        in_view = self.rows[self.top : self.top + self.size.height]
        self.in_view.listen(self._fed, in_view, self.sort_key)
        self.in_view.see(in_view)
        self.redraw()

    def _arrange(self) -> None:
        """Filter and sort anew: many rows a part at a time, while what was there goes on being shown."""
        if len(self._fed) <= AT_ONCE or not self.is_running or (self._test is None and not self.sort_key):
            self._arrange_now()
        else:
            self._turn, self._busy = self._turn + 1, True
            self.run_worker(self._arrange_in_parts(self._turn), group="arrange", exclusive=True)

    def _arrange_now(self) -> None:
        self._turn += 1
        began = time.perf_counter()
        rows = arranged(self._fed, self._test, self._ordering())
        self._take(rows, time.perf_counter() - began)

    async def _arrange_in_parts(self, turn: int) -> None:
        cost, parts = 0.0, arranging(self._fed, self._test, self._ordering())
        rows: list[R] | None = None
        while rows is None:
            began = time.perf_counter()
            rows = next(parts)
            cost += time.perf_counter() - began
            await asyncio.sleep(0)
        if turn == self._turn:
            self._take(rows, cost)
            self.redraw()

    def _ordering(self) -> Ordering[R] | None:
        column = self.column(self.sort_key)
        return None if column is None else Ordering(column.value, self.reverse)

    def _take(self, rows: list[R], cost: float) -> None:
        self.rows, self._busy = rows, False
        self._kept.clear()
        self._follow()
        self.resize_to(self.size.width, len(rows) + 1)
        self._arranged_at, self._cost = time.perf_counter(), cost

    def _follow(self) -> None:
        """Keep the cursor on its row."""
        rows, key = self.rows, self._key
        if self.cursor < len(rows) and (self._current is None or key(rows[self.cursor]) == self._current):
            pass
        elif (place := next((at for at, row in enumerate(rows) if key(row) == self._current), None)) is not None:
            inside = self.top <= self.cursor < self.top + self.size.height - 1
            self.cursor = place
            if inside:
                self.show_cursor()
        else:
            self.cursor = max(0, min(self.cursor, len(rows) - 1))
        self._current = key(rows[self.cursor]) if rows else self._current

    @property
    def current(self) -> R | None:
        """The row under the cursor."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    def select(self, key: Hashable) -> bool:
        """Put the cursor on a row, now or when it comes; says whether it is there."""
        self._current = key
        self._arrange_now()
        self.show_cursor()
        self.redraw()
        return bool(self.rows) and self._key(self.rows[self.cursor]) == key

    def column(self, key: str) -> Column[R] | None:
        """Find a column by its key."""
        return next((column for column in self.columns if column.key == key), None)

    # --- filter and order ----------------------------------------------------------------------------------------

    def set_filter(self, text: str) -> None:
        """Show only what the filter lets through.

        Raises :class:`~tui.ordering.filter.FilterError`, and changes nothing then.
        """
        wanted = parse(text)
        fields = {name: column.value for column in self.columns for name in column.fields}
        self._test = wanted.bind(fields, self.words) if wanted.terms else None
        self.filter = wanted
        self._arrange()
        self.repaint()

    def words(self, row: R) -> str:
        """The row's text, as plain words of a filter look for it."""
        return " ".join(column.piece(row)[0] for column in self.columns)

    def sort_by(self, key: str) -> None:
        """Order by a column, which is shown then; the same once more turns the order round."""
        self.in_view.hide(self.in_view.hidden - {key}, self.sort_key)
        self.reverse = not self.reverse if key == self.sort_key else False
        self.sort_key = key
        self._arrange()
        self.repaint()
        if self.ordered is not None:
            self.ordered()

    def sort_next(self, step: int) -> None:
        """Order by the next of the columns shown, or the one before."""
        keys = [column.key for column in self.in_view.columns]
        place = keys.index(self.sort_key) if self.sort_key in keys else -1 if step > 0 else 0
        self.sort_key = ""
        self.sort_by(keys[(place + step) % len(keys)])

    # --- columns -------------------------------------------------------------------------------------------------

    def hide_columns(self, hidden: Set[str]) -> None:
        """Show all columns but these; the frozen ones, and the one that orders the rows, stay."""
        self.in_view.hide(hidden, self.sort_key)
        self.repaint()

    def go_column(self, key: str) -> None:
        """Bring a column into view."""
        self.in_view.go(key, self.clear_of_bar(self.size.width), self.sort_key)
        self.repaint()

    # --- marks ---------------------------------------------------------------------------------------------------

    def toggle_mark(self) -> None:
        """Mark the row or take its mark away, and go on to the next."""
        if (row := self.current) is not None:
            self.marked ^= {self._key(row)}
            self.move("down")
            self.repaint()

    def mark_all(self) -> None:
        """Mark every row shown; when all are marked, none."""
        keys = {self._key(row) for row in self.rows}
        self.marked = self.marked - keys if keys <= self.marked else self.marked | keys
        self.repaint()

    def chosen(self) -> list[R]:
        """The marked rows; without marks the one under the cursor."""
        marked = [row for row in self._fed if self._key(row) in self.marked]
        return marked or [row for row in (self.current,) if row is not None]

    # --- moving --------------------------------------------------------------------------------------------------

    def move(self, how: Move) -> None:
        """Move the cursor, or the columns with ``left`` and ``right``."""
        if how in ("left", "right"):
            self.in_view.scroll(1 if how == "right" else -1)
            self.repaint()
            return
        page = max(1, self.size.height - 2)
        steps = {"up": -1, "down": 1, "page_up": -page, "page_down": page, "first": -self.total, "last": self.total}
        self.go(self.cursor + steps[how])

    def go(self, place: int) -> None:
        """Put the cursor on a row by its place."""
        if not self.rows:
            return
        before, top = self.cursor, self.top
        self.cursor = max(0, min(len(self.rows) - 1, place))
        self._current = self._key(self.rows[self.cursor])
        self.show_cursor()
        self.redraw([before - top + 1, self.cursor - top + 1] if self.top == top else None)
        if self.moved is not None:
            self.moved()

    def show_cursor(self) -> None:
        """Scroll the cursor's row into view."""
        self.bring(self.cursor, margin=1)

    # --- drawing -------------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Keep nothing that was painted."""
        super().forget()
        self._kept.clear()

    def paint(self, y: int, width: int) -> Strip:
        """The header stays on top, the rows scroll under it."""
        layout = self._widths(width)
        if y == 0:
            arrow = "▼" if self.reverse else "▲"
            return heading(layout, {self.sort_key: arrow}, self.ink, self.clear_of_bar(width))
        place = self.top + y - 1
        if place < len(self.rows):
            return self._row(place, layout, width)
        if not self.rows:
            text = self.empty if not self.total else f"no row matches “{self.filter.text}” ({self.total:,} in all)"
            return strip_of([(line_of(text, width, y - 2), Tone.DIM)], width, self.ink)
        return strip_of([], width, self.ink)

    def _widths(self, width: int) -> Layout[R]:
        return self.in_view.layout(self.clear_of_bar(width), self.sort_key)

    def _row(self, place: int, layout: Layout[R], width: int) -> Strip:
        row = self.rows[place]
        marked, at_cursor = self._key(row) in self.marked, place == self.cursor
        ground = ground_of(stale=self._stale(row), marked=marked, at_cursor=at_cursor)
        strip = self._kept.get((place, ground, marked))
        if strip is not None:
            return strip
        edge = "◆" if marked else "▌" if at_cursor else " "
        strip = self._kept[place, ground, marked] = drawn(row, layout.cells, edge, self.ink.styles[ground], width)
        return strip

    # --- mouse ---------------------------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        """The header orders, a row is selected, twice enters it."""
        if event.y == 0:
            column = self._widths(self.size.width).column_at(event.x)
            if column is not None:
                self.sort_by(column.key)
            return
        place = self.top + event.y - 1
        if place < len(self.rows):
            self.go(place)
            if event.chain == 2:
                self.post_message(self.Entered())
