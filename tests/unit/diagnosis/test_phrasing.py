"""Words that fit how many they are said of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangtop.diagnosis.phrasing import (
    folded,
    folded_names,
    of_several,
    parse_ranks,
    rank_text,
    ranks_on,
    ranks_text,
    waiters_text,
)
from hangtop.diagnosis.unnumbered import Unnumbered


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
    assert [waiters_text(range(number), "other") for number in (1, 3, 16_383)] == [
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


# --- ranks that nobody knows the number of ------------------------------------------------------------------------


A, B, C = Unnumbered("node2", 4711), Unnumbered("node2", 4712), Unnumbered("gpu[1].dc", 88)


@given(st.text(min_size=1), st.integers(1, (1 << 22) - 1), st.text(min_size=1), st.integers(1, (1 << 22) - 1))
def test_every_process_has_one_negative_number_of_its_own(node: str, pid: int, other: str, another: int) -> None:
    one = Unnumbered(node, pid)
    assert one < 0
    assert (one == Unnumbered(other, another)) == ((node, pid) == (other, another))
    assert hash(one) == hash(int(one))


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([37], "rank 37"),
        ([0, 1, 2, 5], "ranks 0-2,5"),
        ([A], "process 4711 on node2"),
        ([B, A], "processes 4711 and 4712 on node2"),
        ([A, C, 3], "rank 3, process 88 on gpu[1].dc and process 4711 on node2"),
        ([A, 3, 4], "ranks 3-4 and process 4711 on node2"),
    ],
)
def test_ranks_and_processes_in_words(ranks: list[int], text: str) -> None:
    assert ranks_text(ranks) == text


def test_the_node_is_said_once() -> None:
    assert ranks_on([3], ["node1"]) == "rank 3 on node1"
    assert ranks_on([3], [""]) == "rank 3"
    assert ranks_on([A], ["node2"]) == "process 4711 on node2"
    assert (rank_text(3), rank_text(A), f"{A}", str(A)) == (
        "rank 3", "process 4711 on node2", "node2:4711", "node2:4711",
    )  # fmt: skip


def test_what_is_written_can_be_asked_for() -> None:
    assert parse_ranks("3,7-9,node2:4711,node2:4712") == {3, 7, 8, 9, A, B}
    with pytest.raises(ValueError, match="no ranks"):
        parse_ranks("node2:x")
