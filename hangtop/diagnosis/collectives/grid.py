"""The last collectives of every group as a table: ranks that are alike in one line, the odd ones marked.

Filled by three sources: flight recorder dumps (a column a sequence number), NCCL's COLL lines (the last collective of
every rank), and NCCL RAS (a column an operation's counter).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from collectors.samples.collectives import Collective, RasRank
from collectors.samples.logs import CommProgress
from hangtop.diagnosis.collectives import ras
from hangtop.diagnosis.collectives.coll_log import odd_communicators
from hangtop.diagnosis.collectives.groups import Group
from hangtop.diagnosis.collectives.history import GroupHistory, is_done
from hangtop.diagnosis.collectives.members import CommRankResolver
from hangtop.diagnosis.collectives.recorder import Matched, shape
from hangtop.diagnosis.collectives.sources import matched_dumps
from hangtop.diagnosis.collectives.vote import vote
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, duration, ranks_text

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


NO_DUMP, UNKNOWN, NOT_IN = GridCell("unknown", "no dump"), GridCell("unknown", ""), GridCell("absent", "not in")
DONE, OPEN = GridCell("done", ""), GridCell("open", "waits")
"""Cells of most ranks: one of each for all."""


class GridLine(NamedTuple):
    """Ranks of a group that are alike in every column. ``ranks`` are global; empty where nothing tells them."""

    ranks: tuple[int, ...]
    label: str
    cells: tuple[GridCell, ...]
    odd: bool


@dataclass(frozen=True, slots=True)
class CollectiveGrid:
    """One group, as one source saw it. ``at`` is when it last did, ``sources`` where it says so.

    ``aged`` is False for dumps of which nobody knows when they were written: ``at`` is their newest entry then.
    """

    name: str
    description: str
    size: int | None
    source: Literal["flight recorder", "NCCL log", "NCCL RAS"]
    at: float | None
    sources: tuple[str, ...]
    seen: int
    """Members that the source speaks of."""
    columns: tuple[GridColumn, ...]
    lines: tuple[GridLine, ...]
    aged: bool = True

    @property
    def odd(self) -> bool:
        """Some rank is not where the others are."""
        return any(line.odd for line in self.lines)

    def title(self) -> str:
        """``3 tp``."""
        return f"{self.name} {self.description}".strip()

    def members(self) -> frozenset[int]:
        """Global ranks of the group, where all are known; empty where some are not."""
        ranks = frozenset(rank for line in self.lines for rank in line.ranks)
        return ranks if len(ranks) == self.size else frozenset()


def grids(job: Job) -> tuple[CollectiveGrid, ...]:
    """Every group that some source tells of: those with an odd rank first, then by source and size."""
    resolver = CommRankResolver(job)
    found = [*_of_recorders(job.once(matched_dumps)), *_of_progress(job, resolver), *_of_ras(job, resolver)]
    return tuple(sorted(found, key=lambda grid: (not grid.odd, grid.source, -(grid.size or 0), grid.name)))


def _lines(rows: Mapping[int, tuple[GridCell, ...]], accused: Collection[int]) -> Iterator[GridLine]:
    """Ranks with the same cells as one line: the accused first, then the fewest."""
    alike: dict[tuple[bool, tuple[GridCell, ...]], list[int]] = defaultdict(list)
    for rank, cells in rows.items():
        alike[rank in accused, cells].append(rank)
    for (odd, cells), ranks in sorted(alike.items(), key=lambda item: (not item[0][0], len(item[1]), item[1])):
        yield GridLine(tuple(ranks), ranks_text(ranks), cells, odd)


def _renumbered(line: GridLine, ranks: Mapping[int, int | None]) -> GridLine:
    """The same, by global ranks where they are known; ranks within the communicator are said to be that."""
    known = tuple(sorted(rank for number in line.ranks if (rank := ranks.get(number)) is not None))
    all_known = len(known) == len(line.ranks)
    return line._replace(ranks=known, label=ranks_text(known) if all_known else f"{ranks_text(line.ranks)} of it")


# --- flight recorder ---------------------------------------------------------------------------------------------


def _of_recorders(matched: Matched) -> Iterator[CollectiveGrid]:
    given = matched.given
    for group, own in sorted(given.by_group.items(), key=lambda item: (item[0].name, item[0].ranks)):
        members = given.members(group)
        numbers = sorted({seq for history in own.values() for seq in history.entries})[-KEPT:]
        columns = [_column(seq, own) for seq in numbers]
        waited = {seq for history in own.values() for seq in history.unfinished}
        rows = {
            rank: tuple(
                _cell(seq, own.get(rank), column, seq in waited) if rank in given.dumps else NO_DUMP
                for seq, column in zip(numbers, columns, strict=True)
            )
            for rank in sorted(members)
        }
        dumps = [given.dumps[rank] for rank in sorted(members) if rank in given.dumps]
        written = {dump.rank: dump.written or dump.at for dump in dumps}
        yield CollectiveGrid(
            name=group.name or "0",
            description=group.description if group.description != group.name else "",
            size=len(members),
            source="flight recorder",
            at=max((at for at in written.values() if at is not None), default=None),
            aged=all(dump.written is not None for dump in dumps),
            sources=tuple(dump.source for dump in dumps),
            seen=len(dumps),
            columns=tuple(columns),
            lines=tuple(_aged(line, numbers, own, written) for line in _lines(rows, _accused(group, matched))),
        )


def _accused(group: Group, matched: Matched) -> set[int]:
    """Ranks of a group that others wait for, or that joined in another way than most."""
    waited_for = {rank for s in matched.not_joined if s.group == group for rank in (*s.absent, *s.undumped)}
    return waited_for | {rank for differs in matched.differs if differs.group == group for rank in differs.accused}


def _column(seq: int, own: Mapping[int, GroupHistory]) -> GridColumn:
    entries = {rank: history.entries[seq] for rank, history in own.items() if seq in history.entries}
    counted = vote({rank: (entry.op, _size(entry)) for rank, entry in entries.items()})
    first = next(iter(entries.values()))
    op, size = counted.usual if counted else (first.op, _size(first))
    return GridColumn(f"#{seq}", op, size)


def _size(entry: Collective) -> str:
    return _size_text(tuple(map(tuple, entry.input_sizes)), tuple(entry.input_dtypes))


@lru_cache(maxsize=1024)  # thousands of ranks have the same few
def _size_text(sizes: tuple[tuple[int, ...], ...], dtypes: tuple[str, ...]) -> str:
    types = {DTYPES.get(name, name) for name in dtypes}
    return f"{shape(sizes)} {','.join(sorted(types))}".strip()


def _cell(seq: int, history: GroupHistory | None, column: GridColumn, waited: bool) -> GridCell:
    entry = history.entries.get(seq) if history else None
    if history is None or entry is None:
        launched = history is not None and seq <= history.enqueued
        return NOT_IN if waited and not launched else UNKNOWN
    if entry.op != column.title:
        return GridCell("differs", entry.op)
    if waited and (size := _size(entry)) != column.note:
        return GridCell("differs", size)
    return DONE if is_done(entry) or seq <= history.completed else OPEN


def _aged(
    line: GridLine, numbers: Sequence[int], own: Mapping[int, GroupHistory], written: Mapping[int, float | None]
) -> GridLine:
    """The same, with how long its ranks had waited at the longest when they were dumped.

    Where nobody knows when that was, it was not before the newest entry; nothing is said of that entry itself.
    """
    cells = list(line.cells)
    for place, (seq, cell) in enumerate(zip(numbers, cells, strict=True)):
        ages = [
            at - created
            for rank in line.ranks if cell.state == "open" and rank in own and seq in own[rank].unfinished
            if (at := written.get(rank)) is not None and (created := own[rank].entries[seq].created) is not None
        ]  # fmt: skip
        if ages and max(ages) > 0:
            cells[place] = cell._replace(text=f"{cell.text} {duration(max(ages))}")
    return line._replace(cells=tuple(cells))


# --- NCCL's log and RAS ------------------------------------------------------------------------------------------


def _of_progress(job: Job, resolver: CommRankResolver) -> Iterator[CollectiveGrid]:
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


def _of_ras(job: Job, resolver: CommRankResolver) -> Iterator[CollectiveGrid]:
    if not job.ras:
        return
    last = max(job.ras, key=lambda look: look.at)
    behind = {one.comm: one.least for one in ras.behind(job.ras)}
    for communicator in last.value.communicators:
        operations = sorted({op for rank in communicator.ranks for op in rank.counts})
        members = {rank.rank: rank for rank in sorted(communicator.ranks, key=lambda rank: rank.rank)}
        accused = {number for number, rank in members.items() if rank.state in ras.AWAY}
        accused.update(behind.get(communicator.comm, ()))
        rows = {number: _counted(rank, operations) for number, rank in members.items()}
        ranks = {number: next(iter(resolver.of_members([rank])), None) for number, rank in members.items()}
        yield CollectiveGrid(
            name=communicator.comm,
            description=communicator.status.lower(),
            size=communicator.size,
            source="NCCL RAS",
            at=last.at,
            sources=(f"{last.value.node or 'a report'}, {count(len(job.ras), 'answer')}",),
            seen=len(members),
            columns=tuple(map(GridColumn, ("state", *operations))),
            lines=tuple(_renumbered(line, ranks) for line in _lines(rows, accused)),
        )


def _counted(rank: RasRank, operations: Collection[str]) -> tuple[GridCell, ...]:
    state = GridCell("absent" if rank.state in ras.AWAY else "value", rank.state)
    return (state, *(GridCell("value", str(rank.counts[op])) if op in rank.counts else UNKNOWN for op in operations))
