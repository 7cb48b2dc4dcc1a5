"""Who waits for whom: boxes and edges from what the verdict rests on, as a tree whose root holds the others up."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from hangtop.diagnosis.finding import WaitBox
from hangtop.diagnosis.verdict.wait_tree import BLAMED, SHOWN, tree_rows
from tests.support.jobs import ALL_REDUCE, READING, Sketch, c10d


def chain_lines(boxes: Sequence[WaitBox]) -> list[str]:
    return [f"{row.head}{row.text}" for row in tree_rows(boxes)]


def test_all_wait_for_the_one_that_reads() -> None:
    job = Sketch(world=4)
    job.ranks().at(ALL_REDUCE)
    job.ranks(2).at(READING, syscall="read", waiting_on="/data/shard-7")
    reader, others = job.verdict().waits
    assert (reader.ranks, reader.blamed, reader.waits_for) == ((2,), True, ())
    assert "read_shard (data.py:88)" in reader.doing
    assert (others.ranks, others.blamed, others.waits_for) == ((0, 1, 3), False, (0,))
    root, below = chain_lines(job.verdict().waits)
    assert root.startswith("rank 2 ")
    assert BLAMED in root
    assert below.startswith(("└─ ranks 0,1,3 ", "└─ ranks 0-1,3 "))


def test_a_chain_is_followed_to_its_end() -> None:
    boxes = (
        WaitBox((5,), ("n2",), "works: read (data.py:1)", True),
        WaitBox((4,), ("n2",), "waits: recv", False, (0,), "recv #7 in pp"),
        WaitBox((0, 1), ("n1",), "waits: all_reduce", False, (1,), "all_reduce #3 in dp"),
        WaitBox((2,), ("n1",), "waits: send", False, (0,)),
    )
    assert chain_lines(boxes) == [
        "rank 5 on n2: works: read (data.py:1)   ◀ holds the others up",
        "└─ rank 4 on n2: waits: recv   [recv #7 in pp]",
        "   └─ ranks 0-1 on n1: wait: all_reduce   [all_reduce #3 in dp]",
        "└─ rank 2 on n1: waits: send",
    ]


@given(st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 19), max_size=3)), max_size=20))
def test_any_edges_are_drawn_once_and_end(rows: list[tuple[bool, list[int]]]) -> None:
    boxes = [
        WaitBox((rank,), (), "waits", blamed, tuple(other for other in others if other < len(rows) and other != rank))
        for rank, (blamed, others) in enumerate(rows)
    ]
    lines = chain_lines(boxes)
    assert len(set(lines)) == len(lines) <= SHOWN
    assert bool(lines) == bool(boxes)


def stages() -> Sketch:
    """Two stages of two tensor halves (ranks 0 and 1, then 2 and 3), over gloo; rank 3 reads."""
    job = Sketch(world=4)
    for rank in (0, 1):
        job.ranks(rank).at(c10d("recv", "take pipe.py:7"), arguments={"src": str(rank + 2)})
    job.ranks(2).at(c10d("all_reduce", "half tp.py:3"), arguments={"group_given": "yes"})
    job.ranks(3).at(READING, syscall="read", waiting_on="/data/shard-7")
    return job


def test_frames_alone_lead_from_a_receive_to_whom_it_is_from() -> None:
    boxes = stages().verdict().waits
    chain = {box.ranks: [boxes[other].ranks for other in box.waits_for] for box in boxes}
    assert chain == {(3,): [], (2,): [(3,)], (1,): [(3,)], (0,): [(2,)]}
    assert {box.operation for box in boxes if box.ranks in ((0,), (1,))} == {"recv"}
    assert chain_lines(boxes)[-1].endswith("rank 0 on node1: waits in recv at take (pipe.py:7)")
