"""NCCL's Inspector as tables: a line a rank, a column an operation, those far from their peers marked."""

from __future__ import annotations

from collectors.node.logs.inspector import Speeds
from collectors.samples.logs import CommSpeed
from hangtop.diagnosis.groups.grid import grids
from hangtop.diagnosis.groups.table import CollectiveGrid
from tests.support.inspector import GIB, NOW_US, file
from tests.support.jobs import Sketch


def speeds(text: str, rank: int) -> list[CommSpeed]:
    seen = Speeds(f"/out/node-pid{1000 + rank}.log")
    seen.take(text.encode())
    return list(seen.told())


def tables(*files: str, known: bool = True) -> tuple[CollectiveGrid, ...]:
    job = Sketch(world=len(files), nodes=1)
    told = [one for rank, text in enumerate(files) for one in speeds(text, rank)]
    job.node("node1", speeds=tuple(told))
    if not known:
        job.people.clear()
    return grids(job.job())


def steady(rate: float) -> list[float]:
    return [rate] * 32


def test_each_rank_beside_the_others_with_the_odd_one_first() -> None:
    files = [file(rank, steady(40.0 if rank == 5 else 300.0), name="tp") for rank in range(8)]
    (table,) = tables(*files)
    assert (table.witness, table.name, table.description) == ("NCCL Inspector", "0x7f8c496ae9f661", "tp")
    assert (table.size, table.seen, table.at) == (8, 8, NOW_US / 1e6)
    (column,) = table.columns
    assert column == ("AllReduce", "1.0 GiB", "GB/s")
    odd, rest = table.lines
    assert (odd.ranks, odd.odd, odd.cells[0]) == ((5,), True, ("differs", "40 40-40"))
    assert (rest.ranks, rest.odd, rest.cells[0].state) == ((0, 1, 2, 3, 4, 6, 7), False, "value")
    assert rest.label == "ranks 0-4,6-7"


def test_small_seldom_and_pairs_are_shown_and_not_called_odd() -> None:
    for fields in ({"size": 4096}, {"op": "Send", "peer": 1, "size": GIB}):
        files = [file(rank, steady(40.0 if rank == 5 else 300.0), **fields) for rank in range(8)]
        (table,) = tables(*files)
        assert not table.odd
    (table,) = tables(*(file(rank, steady(40.0 if rank == 5 else 300.0)[:4]) for rank in range(8)))
    assert not table.odd


def test_the_operations_that_moved_most_and_no_more_than_fit() -> None:
    texts = "".join(file(0, steady(100.0), size=GIB >> shift, ranks=1) for shift in range(10))
    (table,) = tables(texts)
    assert [column.title for column in table.columns][:3] == ["1.0 GiB", "512 MiB", "256 MiB"]
    assert len(table.columns) == 8


def test_ranks_of_unknown_processes_are_said_to_be_of_the_communicator() -> None:
    (table,) = tables(*(file(rank, steady(300.0), ranks=2) for rank in range(2)), known=False)
    assert table.lines[0].ranks == ()
    assert table.lines[0].label == "ranks 0-1 of it"
