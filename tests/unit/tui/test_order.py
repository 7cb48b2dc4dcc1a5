"""Order of rows: as people count, unknown last whichever way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tui.ordering.filter import Value
from tui.ordering.order import natural, ordered


def test_names_count_as_people_do() -> None:
    assert sorted(["node10", "node9", "Node1"], key=natural) == ["Node1", "node9", "node10"]


def test_unknown_is_last_in_both_directions() -> None:
    rows: list[Value] = [None, 3, "b", 1, None, "a"]
    assert ordered(rows, lambda row: row) == [1, 3, "a", "b", None, None]
    assert ordered(rows, lambda row: row, reverse=True) == [3, 1, "b", "a", None, None]


@given(st.lists(st.one_of(st.none(), st.integers(), st.floats(allow_nan=False), st.text())))
def test_anything_can_be_ordered(rows: list[Value]) -> None:
    assert sorted(map(repr, ordered(rows, lambda row: row))) == sorted(map(repr, rows))
