"""Rows in parts come out as rows at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tui.ordering.filter import Value
from tui.widgets.arranging import PART, Ordering, arranged, arranging


@given(st.lists(st.none() | st.integers(0, 9) | st.sampled_from(["a", "b10", "b9"]), max_size=3 * PART), st.booleans())
def test_parts_give_the_same_rows_in_the_same_order(values: list[Value], reverse: bool) -> None:
    rows = list(enumerate(values))

    def test(row: tuple[int, Value]) -> bool:
        return row[1] != 3

    orderings: list[Ordering[tuple[int, Value]] | None] = [None, Ordering(lambda row: row[1], reverse)]
    for by in orderings:
        for only in (None, test):
            *parts, last = arranging(rows, only, by)
            assert last == arranged(rows, only, by)
            assert parts == [None] * -(-len(rows) // PART)
