"""The last collectives of every group as a table: ranks that are alike in one line, the odd ones marked.

Filled by flight recorder dumps (a column a sequence number) and by NCCL's COLL lines (the last collective of a rank).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from collectors.samples.collectives import Collective
from collectors.samples.logs import CommProgress
from hangtop.diagnosis.collectives.coll_log import odd_communicators
from hangtop.diagnosis.collectives.history import GroupHistory, is_done
from hangtop.diagnosis.collectives.members import CommRankResolver
from hangtop.diagnosis.collectives.recorder import Matched, shape
from hangtop.diagnosis.collectives.sources import matched_dumps
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import ranks_text

KEPT = 64
"""Sequence numbers kept of a group."""
DTYPES = {"Float": "f32", "Half": "f16", "BFloat16": "bf16", "Double": "f64", "Long": "i64", "Int": "i32", "Byte": "u8"}
State = Literal["done", "open", "differs", "absent", "unknown", "value"]
"""``absent``: others wait in it and this rank has not launched it; ``unknown``: nothing tells."""


class GridColumn(NamedTuple):
    """What the cells below are about: ``#1829``, ``all_reduce``, ``4096 f32``."""

    head: str
    title: str = ""
    note: str = ""


class GridCell(NamedTuple):
    """What the ranks of a line did there."""

    state: State
    text: str


class GridLine(NamedTuple):
    """Ranks of a group that are alike in every column. ``ranks`` are global; empty where nothing tells them."""

    ranks: tuple[int, ...]
    label: str
    cells: tuple[GridCell, ...]
    odd: bool


@dataclass(frozen=True, slots=True)
class CollectiveGrid:
    """One group, as one source saw it. ``at`` is when it last did, ``sources`` where it says so."""

    name: str
    description: str
    size: int | None
    source: Literal["flight recorder", "NCCL log"]
    at: float | None
    sources: tuple[str, ...]
    seen: int
    """Members that the source speaks of."""
    columns: tuple[GridColumn, ...]
    lines: tuple[GridLine, ...]

    @property
    def odd(self) -> bool:
        """Some rank is not where the others are."""
        return any(line.odd for line in self.lines)

    def title(self) -> str:
        """``3 tp``."""
        return f"{self.name} {self.description}".strip()


def grids(job: Job) -> tuple[CollectiveGrid, ...]:
    """Every group that some source tells of: those with an odd rank first, then by source and size."""
    found = [*_of_recorders(job.once(matched_dumps)), *_of_progress(job)]
    return tuple(sorted(found, key=lambda grid: (not grid.odd, grid.source, -(grid.size or 0), grid.name)))


def _lines(rows: Mapping[int, tuple[GridCell, ...]], accused: Collection[int]) -> Iterator[GridLine]:
    """Ranks with the same cells as one line: the accused first, then the fewest."""
    alike: dict[tuple[bool, tuple[GridCell, ...]], list[int]] = defaultdict(list)
    for rank, cells in rows.items():
        alike[rank in accused, cells].append(rank)
    for (odd, cells), ranks in sorted(alike.items(), key=lambda item: (not item[0][0], len(item[1]), item[1])):
        yield GridLine(tuple(ranks), ranks_text(ranks), cells, odd)


def _of_recorders(matched: Matched) -> Iterator[CollectiveGrid]:
    given = matched.given
    for group, own in sorted(given.by_group.items(), key=lambda item: (item[0].name, item[0].ranks)):
        members = given.members(group)
        numbers = sorted({seq for history in own.values() for seq in history.entries})[-KEPT:]
        columns = [_column(seq, own) for seq in numbers]
        waited = {seq for history in own.values() for seq in history.unfinished}
        edges = [one for one in matched.edges if one.group == group.label and not one.p2p and one.why != "behind"]
        accused = {rank for one in edges for rank in one.for_ranks if one.waiter in members}
        accused.update(rank for one in matched.differs if one.group == group for rank in one.accused)
        rows = {
            rank: tuple(
                _cell(seq, own.get(rank), column, seq in waited) if rank in given.dumps
                else GridCell("unknown", "no dump")
                for seq, column in zip(numbers, columns, strict=True)
            )
            for rank in sorted(members)
        }  # fmt: skip
        dumps = [given.dumps[rank] for rank in sorted(members) if rank in given.dumps]
        yield CollectiveGrid(
            name=group.name or "0",
            description=group.description if group.description != group.name else "",
            size=len(members),
            source="flight recorder",
            at=max((at for dump in dumps if (at := dump.written or dump.at) is not None), default=None),
            sources=tuple(dump.source for dump in dumps),
            seen=len(dumps),
            columns=tuple(columns),
            lines=tuple(_lines(rows, accused)),
        )


def _column(seq: int, own: Mapping[int, GroupHistory]) -> GridColumn:
    entries = [history.entries[seq] for history in own.values() if seq in history.entries]
    ((op, size), _), *_ = Counter((entry.op, _size(entry)) for entry in entries).most_common(1)
    return GridColumn(f"#{seq}", op, size)


def _size(entry: Collective) -> str:
    types = {DTYPES.get(name, name) for name in entry.input_dtypes}
    return f"{shape(entry.input_sizes)} {','.join(sorted(types))}".strip()


def _cell(seq: int, history: GroupHistory | None, column: GridColumn, waited: bool) -> GridCell:
    entry = history.entries.get(seq) if history else None
    if history is None or entry is None:
        launched = history is not None and seq <= history.enqueued
        return GridCell("absent", "not in") if waited and not launched else GridCell("unknown", "")
    if entry.op != column.title:
        return GridCell("differs", entry.op)
    if waited and (size := _size(entry)) != column.note:
        return GridCell("differs", size)
    return GridCell("done", "") if is_done(entry) or seq <= history.completed else GridCell("open", "waits")


def _of_progress(job: Job) -> Iterator[CollectiveGrid]:
    resolver = job.once(CommRankResolver)
    by_comm: dict[str, dict[int, CommProgress]] = defaultdict(dict)
    for one in job.progress:
        by_comm[one.comm][one.rank] = one
    odd = {one.comm: one.accused for one in odd_communicators(job.progress)}
    closed = {event.data.get("comm_id") for _, event in job.events_of("nccl.end")}
    for comm, latest in sorted(by_comm.items()):
        if comm in closed:
            continue
        rows = {
            number: tuple(
                GridCell("value", value)
                for value in (one.op, str(one.op_count), str(one.launched), f"{one.elements} {one.dtype}".strip())
            )
            for number, one in sorted(latest.items())
        }
        ranks = {number: resolver.of_progress(one) for number, one in latest.items()}
        yield CollectiveGrid(
            name=comm,
            description="",
            size=max((one.size for one in latest.values()), default=0) or None,
            source="NCCL log",
            at=max((one.at for one in latest.values() if one.at is not None), default=None),
            sources=tuple(sorted({one.source for one in latest.values()})),
            seen=len(latest),
            columns=tuple(map(GridColumn, ("operation", "opCount", "launched", "elements"))),
            lines=tuple(_renumbered(line, ranks) for line in _lines(rows, odd.get(comm, ()))),
        )


def _renumbered(line: GridLine, ranks: Mapping[int, int | None]) -> GridLine:
    """The same, by global ranks where they are known; ranks within the communicator are said to be that."""
    known = tuple(sorted(rank for number in line.ranks if (rank := ranks.get(number)) is not None))
    all_known = len(known) == len(line.ranks)
    return line._replace(ranks=known, label=ranks_text(known) if all_known else f"{ranks_text(line.ranks)} of it")
