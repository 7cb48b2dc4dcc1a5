"""The middle of what the others have."""

from __future__ import annotations

from statistics import median

from hypothesis import given
from hypothesis import strategies as st

from hangtop.diagnosis.peers import median_without


@given(st.lists(st.integers(0, 50), min_size=2, max_size=12), st.data())
def test_one_value_is_left_out(values: list[int], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(values) - 1))
    rest = [*values[:place], *values[place + 1 :]]
    assert median_without(sorted(values), values[place]) == median(rest)
