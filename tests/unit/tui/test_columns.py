"""Columns take the room that their texts need, and leave the rest to those that would not be in view."""

from __future__ import annotations

from tui.widgets.columns import Column
from tui.widgets.in_view import InView

COLUMNS: tuple[Column[str], ...] = (
    Column("name", "name", 6, lambda row: row[:1]),
    Column("says", "says", 10, lambda row: row, grow=1, seen=30),
    *(Column(f"c{number}", f"c{number}", 9, lambda row: row[:2]) for number in range(4)),
)


def widths(view: InView[str], width: int) -> dict[str, int]:
    return {cells.column.key: cells.size for cells in view.layout(width, "name").cells}


def test_a_column_is_as_wide_as_what_is_in_view_of_it() -> None:
    view = InView(COLUMNS, 1)
    view.see(["x" * 12])
    assert widths(view, 1 + 7 + 13 + 40) == {"name": 6, "says": 12, "c0": 9, "c1": 9, "c2": 9, "c3": 9}
    view.see(["x" * 22, "x"])
    shown = widths(view, 1 + 7 + 13 + 40)
    assert shown["says"] >= 22
    assert "c3" not in shown, "what it says comes before further columns"


def test_it_is_never_wider_than_it_may_be_nor_narrower_than_its_width() -> None:
    view = InView(COLUMNS, 1)
    view.see(["x" * 500])
    assert widths(view, 1 + 7 + 31 + 40)["says"] == 30
    view.see(["x"])
    assert widths(view, 1 + 7 + 11 + 40)["says"] == 10


def test_without_rows_there_is_a_width() -> None:
    view = InView(COLUMNS, 1)
    view.see([])
    assert widths(view, 1 + 7 + 11 + 40)["says"] == 10
