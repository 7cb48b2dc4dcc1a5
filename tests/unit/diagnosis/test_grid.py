"""Collectives of many ranks as one table, by flight recorders."""

from __future__ import annotations

from collectors.samples.collectives import Collective, RecorderDump
from hangtop.diagnosis.collectives.grid import CollectiveGrid, GridCell, grids
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import ranks_text


def job(**fields: object) -> Job:
    return Job(now=1000.0, watched=0.0, live=False, **fields)  # type: ignore[arg-type]


def entry(rank: int, seq: int, op: str = "all_reduce", *, done: bool = True, size: int = 8) -> Collective:
    return Collective(
        rank, "0", "default_pg", seq, op, "nccl", False, None, [[size]], ["Float"],
        "completed" if done else "started", done, 900.0 + seq, None, None, 600.0, [],
    )  # fmt: skip


def dump(rank: int, *entries: Collective, world: int = 4) -> RecorderDump:
    return RecorderDump(rank, "2.10", f"fr_{rank}", 990.0, {"0": list(range(world))}, [], list(entries))


def only(found: tuple[CollectiveGrid, ...]) -> CollectiveGrid:
    (grid,) = found
    return grid


def test_ranks_that_are_alike_share_a_line_and_who_did_not_come_is_the_first() -> None:
    world = 1024
    waiting = [dump(r, entry(r, 6), entry(r, 7, done=False), world=world) for r in range(world) if r != 700]
    grid = only(grids(job(recorders=(*waiting, dump(700, entry(700, 6), world=world)))))
    assert [(ranks_text(line.ranks), line.odd) for line in grid.lines] == [
        ("rank 700", True),
        ("ranks 0-699,701-1023", False),
    ]
    assert [column.head for column in grid.columns] == ["#6", "#7"]
    assert [cell.state for cell in grid.lines[0].cells] == ["done", "absent"]
    assert grid.lines[1].cells[1] == GridCell("open", "waits")


def test_another_operation_and_another_size_are_marked() -> None:
    dumps = [dump(r, entry(r, 7, done=False)) for r in range(3)]
    other = only(grids(job(recorders=(*dumps, dump(3, entry(3, 7, "broadcast", done=False))))))
    assert (other.lines[0].ranks, other.lines[0].cells[0]) == ((3,), GridCell("differs", "broadcast"))
    larger = only(grids(job(recorders=(*dumps, dump(3, entry(3, 7, done=False, size=9))))))
    assert (larger.lines[0].ranks, larger.lines[0].cells[0]) == ((3,), GridCell("differs", "9 Float"))


def test_a_rank_without_a_dump_is_odd_only_while_others_wait() -> None:
    waiting = only(grids(job(recorders=tuple(dump(r, entry(r, 7, done=False)) for r in range(3)))))
    assert (waiting.lines[0].ranks, waiting.lines[0].odd, len(waiting.sources)) == ((3,), True, 3)
    resting = only(grids(job(recorders=tuple(dump(r, entry(r, 7)) for r in range(3)))))
    assert not resting.odd


def test_no_dump_no_table() -> None:
    assert grids(job()) == ()
