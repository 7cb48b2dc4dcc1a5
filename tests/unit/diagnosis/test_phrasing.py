"""Words that fit how many they are said of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangtop.diagnosis.phrasing import folded, folded_names, of_several, parse_ranks, who_wait


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


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["n1", "n2", "n3", "n7"], "n[1-3,7]"),
        (["gpu001", "gpu002", "login"], "gpu[001-002] and login"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["n8", "n9", "n10"], "n[8-10]"),
        (["n08", "n100", "m10"], "n08, n100 and m10"),
        (["x3"], "x3"),
        (["a٣"], "a٣"),
        (["n1.lab.example", "n2.lab.example", "n9.lab.example"], "n[1-2,9].lab.example"),
        (["n1.a", "n2.a", "n1.b", "n2.b"], "n[1-2].a and n[1-2].b"),
        (["ip-10-0-0-7.internal", "ip-10-0-0-8.internal"], "ip-10-0-0-[7-8].internal"),
        (["10.0.0.1", "10.0.0.2"], "10.0.0.[1-2]"),
        ([f"node{number}" for number in range(1, 99, 2)], "node[1,3,5,7,9,11,13,15,…]"),
        ([], ""),
    ],
)
def test_names_of_nodes_are_folded(names: list[str], told: str) -> None:
    assert folded_names(names) == told
