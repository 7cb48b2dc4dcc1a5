"""The last collectives of every group as a table: ranks that are alike in one line, the odd ones marked.

Filled by three sources: flight recorder dumps (a column a sequence number), NCCL's COLL lines (the last collective of
every rank), and NCCL RAS (a column an operation's counter).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from collectors.samples.collectives import Collective, RasRank, RecorderDump
from collectors.samples.logs import CommProgress
from hangtop.diagnosis.groups import launched, ras
from hangtop.diagnosis.groups.groups import Group
from hangtop.diagnosis.groups.owners import Owners
from hangtop.diagnosis.groups.recorder import Matched, shape
from hangtop.diagnosis.groups.table import (
    CollectiveGrid,
    GridCell,
    GridColumn,
    GridLine,
    folded_lines,
    renumbered,
)
from hangtop.diagnosis.groups.tracks import Track, is_done
from hangtop.diagnosis.groups.vote import vote
from hangtop.diagnosis.groups.witnesses import matched_dumps
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, duration

KEPT = 64
"""Sequence numbers kept of a group."""
DTYPES = {"Float": "f32", "Half": "f16", "BFloat16": "bf16", "Double": "f64", "Long": "i64", "Int": "i32", "Byte": "u8"}

NO_DUMP, UNKNOWN, NOT_IN = GridCell("unknown", "no dump"), GridCell("unknown", ""), GridCell("absent", "not in")
DONE, OPEN = GridCell("done", ""), GridCell("open", "waits")
"""Cells of most ranks: one of each for all."""


def grids(job: Job) -> tuple[CollectiveGrid, ...]:
    """Every group that some witness tells of: those with an odd rank first, then by witness and size."""
    owners = Owners(job)
    found = [*_of_recorders(job), *_of_progress(job, owners), *_of_ras(job, owners)]
    return tuple(sorted(found, key=lambda grid: (not grid.odd, grid.witness, -(grid.size or 0), grid.name)))


# --- flight recorder ---------------------------------------------------------------------------------------------


def _of_recorders(job: Job) -> Iterator[CollectiveGrid]:
    matched = job.once(matched_dumps)
    for group, own in sorted(matched.given.tracks.items(), key=lambda item: (item[0].name, item[0].ranks)):
        yield _recorded(group, own, matched)


def _recorded(group: Group, own: Mapping[int, Track], matched: Matched) -> CollectiveGrid:
    newest, members = matched.given.dumps, matched.given.members(group)
    numbers = sorted({seq for track in own.values() for seq in track.entries})[-KEPT:]
    columns = [_column(seq, own) for seq in numbers]
    waited = {seq for track in own.values() for seq in track.unfinished}
    accused = _accused(group, matched)
    rows = {
        rank: tuple(_cell(seq, own.get(rank), column, rank in newest, seq in waited)
                    for seq, column in zip(numbers, columns, strict=True))
        for rank in sorted(members)
    }  # fmt: skip
    ages = _ages(own, newest, numbers)
    seen = [newest[rank] for rank in sorted(members) if rank in newest]
    return CollectiveGrid(
        name=group.name or "0",
        description=group.description if group.description != group.name else "",
        size=len(members),
        witness="flight recorder",
        at=max((at for dump in seen if (at := dump.written or dump.at) is not None), default=None),
        aged=all(dump.written is not None for dump in seen),
        sources=tuple(dump.source for dump in seen),
        seen=len(seen),
        columns=tuple(columns),
        lines=tuple(_aged(line, ages) for line in folded_lines(rows, accused)),
    )


def _accused(group: Group, matched: Matched) -> set[int]:
    """Ranks of a group that others wait for, or that joined in another way than most."""
    found: set[int] = set()
    for stop in matched.not_joined:
        if stop.group == group:
            found.update(stop.absent, stop.undumped)
    for differs in matched.differs:
        if differs.group == group:
            found.update(differs.accused)
    return found


def _column(seq: int, own: Mapping[int, Track]) -> GridColumn:
    entries = {rank: track.entries[seq] for rank, track in own.items() if seq in track.entries}
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


def _cell(seq: int, track: Track | None, column: GridColumn, dumped: bool, waited: bool) -> GridCell:
    if not dumped:
        return NO_DUMP
    entry = track.entries.get(seq) if track else None
    if track is None or entry is None:
        if track is not None and seq <= track.enqueued:
            return UNKNOWN
        return NOT_IN if waited else UNKNOWN
    if entry.op != column.title:
        return GridCell("differs", entry.op)
    if waited and (size := _size(entry)) != column.note:
        return GridCell("differs", size)
    return DONE if is_done(entry) or seq <= track.completed else OPEN


def _ages(
    own: Mapping[int, Track], newest: Mapping[int, RecorderDump], numbers: Sequence[int]
) -> Mapping[int, Mapping[int, float]]:
    """Rank → place of the column → seconds for which it had waited there when it was dumped.

    Where nobody knows when that was, it was not before the newest entry; nothing is said of that entry itself.
    """
    places = {seq: place for place, seq in enumerate(numbers)}
    found: dict[int, dict[int, float]] = defaultdict(dict)
    for rank, track in own.items():
        taken = newest[rank].written or newest[rank].at
        for seq in track.unfinished:
            entry, place = track.entries.get(seq), places.get(seq)
            if entry is None or place is None or entry.created is None or taken is None:
                continue
            if (waited := taken - entry.created) > 0:
                found[rank][place] = waited
    return found


def _aged(line: GridLine, ages: Mapping[int, Mapping[int, float]]) -> GridLine:
    """The same, with how long its ranks have waited at the longest."""
    cells = list(line.cells)
    for place, cell in enumerate(cells):
        if cell.state != "open":
            continue
        if waits := [age for rank in line.ranks if (age := ages.get(rank, {}).get(place)) is not None]:
            cells[place] = cell._replace(text=f"{cell.text} {duration(max(waits))}")
    return replace(line, cells=tuple(cells))


# --- NCCL's log ---------------------------------------------------------------------------------------------------


def _of_progress(job: Job, owners: Owners) -> Iterator[CollectiveGrid]:
    by_comm: dict[str, dict[int, CommProgress]] = defaultdict(dict)
    for one in job.progress:
        by_comm[one.comm][one.rank] = one
    odd = {one.comm: one for one in launched.odd_ones(job.progress)}
    closed = {event.data.get("comm_id") for event in job.events if event.kind == "nccl.end"}
    for comm, latest in sorted(by_comm.items()):
        if comm in closed:
            continue
        accused = set(odd[comm].accused) if comm in odd else set()
        rows = {number: _launched(one) for number, one in sorted(latest.items())}
        ranks = {number: owners.of_progress(one) for number, one in latest.items()}
        yield CollectiveGrid(
            name=comm,
            description="",
            size=max((one.size for one in latest.values()), default=0) or None,
            witness="NCCL log",
            at=max((one.at for one in latest.values() if one.at is not None), default=None),
            sources=tuple(sorted({one.source for one in latest.values()})),
            seen=len(latest),
            columns=(GridColumn("operation", "", ""), GridColumn("opCount", "", ""), GridColumn("launched", "", ""),
                     GridColumn("elements", "", "")),
            lines=tuple(renumbered(line, ranks) for line in folded_lines(rows, accused)),
        )  # fmt: skip


def _launched(one: CommProgress) -> tuple[GridCell, ...]:
    values = (one.op, str(one.op_count), str(one.launched), f"{one.elements} {one.dtype}".strip())
    return tuple(GridCell("value", value) for value in values)


# --- NCCL RAS -----------------------------------------------------------------------------------------------------


def _of_ras(job: Job, owners: Owners) -> Iterator[CollectiveGrid]:
    if not job.ras:
        return
    last = max(job.ras, key=lambda look: look.at)
    still = {one.comm: set(one.least) for one in ras.behind(job.ras)}
    for communicator in last.value.communicators:
        operations = sorted({op for rank in communicator.ranks for op in rank.counts})
        members = {rank.rank: rank for rank in communicator.ranks}
        away = {number for number, rank in members.items() if rank.state in ras.AWAY}
        rows = {number: _counted(rank, operations) for number, rank in sorted(members.items())}
        ranks = {number: next(iter(owners.of_members([rank])), None) for number, rank in members.items()}
        yield CollectiveGrid(
            name=communicator.comm,
            description=communicator.status.lower(),
            size=communicator.size,
            witness="NCCL RAS",
            at=last.at,
            sources=(f"{last.value.node or 'a report'}, {count(len(job.ras), 'answer')}",),
            seen=len(members),
            columns=(GridColumn("state", "", ""), *(GridColumn(operation, "", "") for operation in operations)),
            lines=tuple(
                renumbered(line, ranks) for line in folded_lines(rows, still.get(communicator.comm, set()) | away)
            ),
        )


def _counted(rank: RasRank, operations: Collection[str]) -> tuple[GridCell, ...]:
    state = GridCell("absent" if rank.state in ras.AWAY else "value", rank.state)
    return (state, *(GridCell("value", str(rank.counts[op])) if op in rank.counts else UNKNOWN for op in operations))
