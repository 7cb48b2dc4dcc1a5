"""Names of nodes in sentences, boxes and trees."""

from __future__ import annotations

import pytest

from hangtop.diagnosis.node_names import folded_names, nodes_text


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
        ([], ""),
    ],
)
def test_names_of_nodes_are_folded(names: list[str], told: str) -> None:
    assert folded_names(names) == told


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["node1", "node2"], "node1 and node2"),
        ([f"node{number}" for number in range(1, 65)], "node[1-64]"),
        ([f"node{number}" for number in range(1, 99, 2)], "node1, node3, node5, node7 and 45 more"),
        ([f"{letter}-host" for letter in "abcdef"], "a-host, b-host, c-host and 3 more"),
        ([], ""),
    ],
)
def test_many_nodes_in_a_sentence_are_folded_where_that_is_short(names: list[str], told: str) -> None:
    assert nodes_text(names) == told
