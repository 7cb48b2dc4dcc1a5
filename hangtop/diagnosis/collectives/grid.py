"""The last collectives of every group as a table: ranks that are alike in one line, the odd ones marked.

Filled by flight recorder dumps: a column a sequence number.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from collectors.samples.collectives import Collective
from hangtop.diagnosis.collectives.history import GroupHistory, is_done
from hangtop.diagnosis.collectives.recorder import Matched, shape
from hangtop.diagnosis.collectives.sources import matched_dumps
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import ranks_text

KEPT = 64
"""Sequence numbers kept of a group."""
DTYPES = {"Float": "f32", "Half": "f16", "BFloat16": "bf16", "Double": "f64", "Long": "i64", "Int": "i32", "Byte": "u8"}
State = Literal["done", "open", "differs", "absent", "unknown"]
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
    """One group. ``at`` is when it was last dumped, ``sources`` are the dumps."""

    name: str
    description: str
    size: int
    at: float | None
    sources: tuple[str, ...]
    seen: int
    """Members with a dump."""
    columns: tuple[GridColumn, ...]
    lines: tuple[GridLine, ...]

    @property
    def odd(self) -> bool:
        """Some rank is not where the others are."""
        return any(line.odd for line in self.lines)


def grids(job: Job) -> tuple[CollectiveGrid, ...]:
    """Every group of which dumps tell: those with an odd rank first, then by size."""
    found = _of_recorders(job.once(matched_dumps))
    return tuple(sorted(found, key=lambda grid: (not grid.odd, -grid.size, grid.name)))


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
