"""Words that fit how many they are said of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangtop.diagnosis.phrasing import folded, of_several, parse_ranks, who_wait


@pytest.mark.parametrize(
    ("one", "several"),
    [
        ("waits in all_reduce at train (train.py:31)", "wait in all_reduce at train (train.py:31)"),
        ("waits for its own GPU: synchronize", "wait for their own GPU: synchronize"),
        ("waits: all_reduce", "wait: all_reduce"),
        ("is stuck in the kernel", "are stuck in the kernel"),
        ("reaches a barrier", "reach a barrier"),
        ("never came", "never came"),
        ("in process_rows (data.py:88)", "in process_rows (data.py:88)"),
    ],
)
def test_what_one_rank_does_is_said_of_several(one: str, several: str) -> None:
    assert of_several(one, 1) == one
    assert of_several(one, 3) == several


def test_who_waits_is_counted_and_said_in_the_number_that_it_has() -> None:
    assert [who_wait(range(number), "other") for number in (1, 3, 16_383)] == [
        "1 other waits", "3 others wait", "16,383 others wait",
    ]  # fmt: skip


@given(st.sets(st.integers(0, 3000), min_size=1))
def test_sets_of_ranks_come_back(ranks: set[int]) -> None:
    assert parse_ranks(folded(ranks)) == ranks


@pytest.mark.parametrize("text", ["", "a", "3-", "-3", "7-3", "1,,2", "0-99999999999"])
def test_what_is_no_set_of_ranks(text: str) -> None:
    with pytest.raises(ValueError, match="no ra"):
        parse_ranks(text)
