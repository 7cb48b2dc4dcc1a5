"""The last collectives of every group as a table: ranks that are alike in one line, the odd ones marked.

Filled by flight recorder dumps: a column a sequence number.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from collectors.samples.collectives import Collective
from hangtop.diagnosis.collectives.groups import Group
from hangtop.diagnosis.collectives.history import GroupHistory, is_done, operation_of
from hangtop.diagnosis.collectives.recorder import Matched, matched_dumps
from hangtop.diagnosis.job import Job

KEPT = 64
"""Sequence numbers kept of a group."""
State = Literal["done", "open", "differs", "absent", "unknown"]
"""``absent``: others wait in it and this rank has not launched it; ``unknown``: nothing tells."""


class GridColumn(NamedTuple):
    """What the cells below are about: ``#1829``, ``all_reduce``, ``4096 Float``."""

    head: str
    title: str = ""
    note: str = ""


class GridCell(NamedTuple):
    """What the ranks of a line did there."""

    state: State
    text: str


class GridLine(NamedTuple):
    """Ranks of a group, global ones, that are alike in every column."""

    ranks: tuple[int, ...]
    cells: tuple[GridCell, ...]
    odd: bool


@dataclass(frozen=True, slots=True)
class CollectiveGrid:
    """One group. ``at`` is when it was last dumped, ``sources`` are the dumps."""

    name: str
    size: int
    at: float | None
    sources: tuple[str, ...]
    columns: tuple[GridColumn, ...]
    lines: tuple[GridLine, ...]

    @property
    def odd(self) -> bool:
        """Some rank is not where the others are."""
        return any(line.odd for line in self.lines)


def grids(job: Job) -> tuple[CollectiveGrid, ...]:
    """Every group of which dumps tell: those with an odd rank first, then by size."""
    matched = job.once(matched_dumps)
    found = [_grid(matched, group, own) for group, own in matched.by_group.items()]
    return tuple(sorted(found, key=lambda grid: (not grid.odd, -grid.size, grid.name)))


def _grid(matched: Matched, group: Group, own: Mapping[int, GroupHistory]) -> CollectiveGrid:
    progress = matched.progress[group]
    numbers = sorted({seq for history in own.values() for seq in history.entries})[-KEPT:]
    launched = {seq: [_what(one.entries[seq]) for one in own.values() if seq in one.entries] for seq in numbers}
    columns = tuple(GridColumn(f"#{seq}", *Counter(launched[seq]).most_common(1)[0][0]) for seq in numbers)
    waited = {seq for history in own.values() for seq in history.unfinished}
    alike: dict[tuple[bool, tuple[GridCell, ...]], list[int]] = defaultdict(list)
    for rank in sorted(progress.members):
        cells = tuple(
            _cell(seq, own.get(rank), column, waited=seq in waited) if rank in matched.dumps
            else GridCell("unknown", "no dump")
            for seq, column in zip(numbers, columns, strict=True)
        )  # fmt: skip
        lost = bool(progress.waiting) and rank not in matched.dumps
        alike[lost or any(cell.state in ("differs", "absent") for cell in cells), cells].append(rank)
    ordered = sorted(alike.items(), key=lambda item: (not item[0][0], len(item[1]), item[1]))
    dumps = [matched.dumps[rank] for rank in sorted(progress.members) if rank in matched.dumps]
    return CollectiveGrid(
        group.label, len(progress.members),
        max((at for dump in dumps if (at := dump.written or dump.at) is not None), default=None),
        tuple(dump.source for dump in dumps), columns,
        tuple(GridLine(tuple(ranks), cells, odd) for (odd, cells), ranks in ordered),
    )  # fmt: skip


def _what(entry: Collective) -> tuple[str, str]:
    """``all_reduce`` and ``4096 Float``."""
    one = operation_of(entry, "")
    return one.name, f"{one.size} {one.dtype}".strip()


def _cell(seq: int, history: GroupHistory | None, column: GridColumn, *, waited: bool) -> GridCell:
    entry = history.entries.get(seq) if history else None
    if history is None or entry is None:
        launched = history is not None and seq <= history.enqueued
        return GridCell("absent", "not in") if waited and not launched else GridCell("unknown", "")
    op, note = _what(entry)
    if op != column.title or (waited and note != column.note):
        return GridCell("differs", op if op != column.title else note)
    return GridCell("done", "") if is_done(entry) or seq <= history.completed else GridCell("open", "waits")
