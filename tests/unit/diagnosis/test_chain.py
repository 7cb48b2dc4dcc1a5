"""Who waits for whom: boxes and edges from what the verdict rests on, as a tree whose root holds the others up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hangtop.diagnosis.finding import WaitBox
from hangtop.diagnosis.verdict.chain import BLAMED, SHOWN, chain_lines
from tests.support.jobs import ALL_REDUCE, READING, Sketch


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


def test_a_job_that_moves_has_no_chain() -> None:
    assert Sketch(world=2).verdict().waits == ()


def test_where_nobody_is_to_blame_nobody_is_marked() -> None:
    job = Sketch(world=4)
    job.ranks().at(ALL_REDUCE)
    waits = job.verdict().waits
    assert [box.blamed for box in waits] == [False]
    assert BLAMED not in "".join(chain_lines(waits))


def test_a_chain_is_followed_to_its_end() -> None:
    boxes = (
        WaitBox((5,), ("n2",), "works: read (data.py:1)", True),
        WaitBox((4,), ("n2",), "waits: recv", False, (0,), "recv 7 of pp"),
        WaitBox((0, 1), ("n1",), "waits: all_reduce", False, (1,), "all_reduce 3 of dp"),
        WaitBox((2,), ("n1",), "waits: send", False, (0,)),
    )
    assert chain_lines(boxes) == [
        "rank 5 on n2: works: read (data.py:1)   ◀ holds the others up",
        "├─ rank 4 on n2: waits: recv   [recv 7 of pp]",
        "│  └─ ranks 0-1 on n1: waits: all_reduce   [all_reduce 3 of dp]",
        "└─ rank 2 on n1: waits: send",
    ]


@given(st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 19), max_size=3)), max_size=20))
def test_any_edges_are_drawn_once_and_end(rows: list[tuple[bool, list[int]]]) -> None:
    boxes = [
        WaitBox((rank,), (), "waits", blamed, tuple(other for other in others if other < len(rows) and other != rank))
        for rank, (blamed, others) in enumerate(rows)
    ]
    lines = chain_lines(boxes)
    drawn = [line for line in lines if not line.startswith("…")]
    assert len(drawn) <= SHOWN
    assert len(set(drawn)) == len(drawn)
    assert bool(lines) == bool(boxes)
    if len(drawn) < len(boxes):
        assert lines[-1] == f"… and {len(boxes) - len(drawn)} more point{'s' if len(boxes) - len(drawn) > 1 else ''}"
