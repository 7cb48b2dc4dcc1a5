"""What stands for a rank that nobody knows the number of, and what is written of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangtop.diagnosis.phrasing import parse_ranks, rank_text, ranks_on, ranks_text
from hangtop.diagnosis.unnumbered import Unnumbered

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
