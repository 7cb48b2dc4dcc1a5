"""The square of pairs by leaf or rack: what crosses a slow leaf is a block; without places, by name."""

from __future__ import annotations

from collectors.samples.location import Location
from collectors.samples.probes import ProbePair
from hangtop.diagnosis.job import Job, Node
from hangtop.diagnosis.node_order import BY_NAME, Arrangement, arrangement
from hangtop.session.probes import plain
from hangtop.session.probes.square import square

LEAVES = {"gpu1": "leaf2", "gpu2": "leaf1", "gpu3": "leaf2", "gpu4": "leaf1"}


def job(leaves: dict[str, str], level: str = "leaf") -> Job:
    nodes = {name: Node(name, locations=(Location(level, leaf, "scontrol"),)) for name, leaf in leaves.items()}
    return Job(0.0, 10.0, True, nodes)


def pairs(*names: str) -> list[ProbePair]:
    """Slow wherever a leaf is crossed."""
    return [
        ProbePair(a, b, 1.0 if LEAVES.get(a) == LEAVES.get(b) else 0.1, 1e-4, 0.0, "")
        for place, a in enumerate(names) for b in names[place + 1 :]
    ]  # fmt: skip


def test_nodes_of_one_leaf_stand_together_with_a_gap_between_leaves() -> None:
    arranged = arrangement(job(LEAVES), LEAVES)
    legend, head, *rows = plain(square(pairs(*LEAVES), arranged))
    assert "by leaf (scontrol)" in legend
    assert head.split() == ["gpu2", "gpu4", "gpu1", "gpu3"]
    assert rows == [
        "leaf1  gpu2           █ 1.0     ▁ 0.1   ▁ 0.1",
        "       gpu4   █ 1.0             ▁ 0.1   ▁ 0.1",
        "",
        "leaf2  gpu1   ▁ 0.1   ▁ 0.1             █ 1.0",
        "       gpu3   ▁ 0.1   ▁ 0.1     █ 1.0        ",
    ]


def test_by_name_where_nothing_parts_them_or_it_is_asked_for() -> None:
    apart = {name: f"leaf{name}" for name in LEAVES}
    together = dict.fromkeys(LEAVES, "leaf1")
    assert arrangement(job(apart), LEAVES) == arrangement(job(together), LEAVES) == BY_NAME
    _, head, *rows = plain(square(pairs(*LEAVES)))
    assert head.split() == sorted(LEAVES)
    assert "" not in rows


def test_a_wider_level_parts_them_where_a_narrow_one_does_not() -> None:
    both = {
        name: Node(name, locations=(Location("leaf", name, "scontrol"), Location("block", leaf, "scontrol")))
        for name, leaf in LEAVES.items()
    }
    assert arrangement(Job(0.0, 10.0, True, both), LEAVES).level == "block"


def test_a_node_whose_place_is_not_known_comes_last() -> None:
    arranged = Arrangement("leaf", "scontrol", {"b": "leaf1", "c": "leaf1"})
    assert sorted(["a", "c", "b"], key=arranged.key) == ["b", "c", "a"]


def test_large_squares_keep_their_ruler_above_the_right_columns() -> None:
    names = [f"n{number:02}" for number in range(14)]
    leaves = {name: f"leaf{number % 2}" for number, name in enumerate(names)}
    arranged = arrangement(job(leaves), names)
    _, head, first, *_ = plain(square(pairs(*names), arranged))
    assert len(head.rstrip()) <= len(first.rstrip())
    assert head.index("10") - head.index("5") == 2 * 5 + 2 - 1
