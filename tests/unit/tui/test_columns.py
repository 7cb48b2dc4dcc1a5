"""Columns take the room that their texts need, and leave the rest to those that would not be in view."""

from __future__ import annotations

from tui.looks.theme import Tone
from tui.widgets.columns import Column
from tui.widgets.in_view import LOOKED, InView

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


def test_a_column_grows_as_far_as_what_is_in_view_needs_and_no_hole_is_left_in_the_line() -> None:
    columns: tuple[Column[str], ...] = (
        *COLUMNS[:1],
        Column("says", "says", 10, lambda row: row, grow=1),
        Column("more", "more", 5, lambda row: row[:8], grow=3),
        *COLUMNS[2:],
    )
    view = InView(columns, 1)
    view.see(["x" * 20])
    whole = widths(view, 200)
    assert (whole["says"], whole["more"]) == (20, 8)
    assert sum(size + 1 for size in widths(view, 1 + 7 + 11 + 6 + 40 + 6).values()) + 1 <= 71, (
        "never more than there is"
    )
    view.see(["x" * 15])
    assert widths(view, 200)["says"] == 20, "nothing moves for a text that is a little shorter"
    view.see(["x"])
    assert widths(view, 200)["says"] == 10


def test_what_one_column_does_not_need_the_other_one_has() -> None:
    columns: tuple[Column[str], ...] = (
        *COLUMNS[:1],
        Column("says", "says", 10, lambda row: row, grow=1),
        Column("more", "more", 5, lambda row: row[:6], grow=9),
    )
    view = InView(columns, 1)
    view.see(["x" * 40])
    assert widths(view, 1 + 7 + 11 + 6 + 20) == {"name": 6, "says": 29, "more": 6}


def test_the_last_one_in_view_is_shown_with_its_own_width_rather_than_left_out_for_a_long_text() -> None:
    view = InView(COLUMNS, 1)
    view.see(["x" * 30])
    assert widths(view, 1 + 7 + 20 + 4) == {"name": 6, "says": 19}
    assert widths(view, 1 + 7 + 10 + 4) == {"name": 6}


def test_columns_without_a_value_come_when_a_row_far_down_has_one() -> None:
    columns: tuple[Column[int], ...] = (
        Column("name", "name", 6, lambda row: row),
        Column("rare", "rare", 6, lambda row: row if row == 900 else None),
        Column("none", "none", 6, lambda _: ""),
        Column("dash", "dash", 6, lambda row: row, lambda _: ("–", Tone.DIM)),
    )
    view = InView(columns, 1)
    rows = range(1000)

    def keys() -> list[str]:
        return [column.key for column in view.columns]

    assert keys() == ["name", "rare", "none", "dash"], "what is to come is not known yet"
    view.listen([], [], "")
    assert keys() == ["name", "rare", "none", "dash"]
    view.listen(rows, rows[:20], "")
    assert keys() == ["name"]
    assert view.hidden == {"rare", "none", "dash"}
    for _ in range(len(rows) // LOOKED + 1):
        view.listen(rows, rows[:20], "")
    assert keys() == ["name", "rare"]
    view.hide({"rare", "dash"}, "")
    assert keys() == ["name", "none"]
    view.listen(rows, rows[:20], "dash")
    assert keys() == ["name", "none", "dash"], "what orders the rows is shown"


def test_the_column_that_was_scrolled_to_stays_the_first_when_one_comes_before_it() -> None:
    told: list[str] = []
    others: list[Column[str]] = [Column(f"c{number}", f"c{number}", 9, lambda row: row) for number in range(4)]
    columns: tuple[Column[str], ...] = (
        Column("name", "name", 6, lambda row: row),
        Column("late", "late", 6, lambda _: told[0] if told else None),
        *others,
    )
    view = InView(columns, 1)
    view.listen(["x"], ["x"], "")
    view.layout(34, "")
    view.scroll(1)
    assert [cells.column.key for cells in view.layout(34, "").cells] == ["name", "c1", "c2"]
    told.append("y")
    view.listen(["x"], ["x"], "")
    assert [cells.column.key for cells in view.layout(34, "").cells] == ["name", "c1", "c2"]
    assert [column.key for column in view.columns][1] == "late"
