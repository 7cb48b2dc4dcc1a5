"""How fast each rank was in each communicator's operations, by the files of NCCL's Inspector, as tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from collectors.samples.logs import CommSpeed
from hangtop.diagnosis.groups.owners import Owners
from hangtop.diagnosis.groups.table import CollectiveGrid, GridCell, GridColumn, folded_lines, renumbered
from hangtop.diagnosis.groups.unequal import ENOUGH, FAR, LARGE, PEERS
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import size

COLUMNS = 8
"""Operations of one communicator that are shown: those that moved most."""
_Kind = tuple[str, int | None, int]
"""Operation, the other side of a Send or Recv, and bytes."""


def of_inspector(job: Job, owners: Owners) -> Iterator[CollectiveGrid]:
    """A table a communicator, a line a rank, a column an operation of one size: GB/s, and its quartiles."""
    by_comm: dict[str, list[CommSpeed]] = defaultdict(list)
    for node in job.nodes.values():
        for speed in node.speeds:
            by_comm[speed.comm].append(speed)
    for comm, speeds in sorted(by_comm.items()):
        yield _table(comm, speeds, owners)


def _table(comm: str, speeds: Sequence[CommSpeed], owners: Owners) -> CollectiveGrid:
    moved: dict[_Kind, int] = defaultdict(int)
    members: dict[int, dict[_Kind, CommSpeed]] = defaultdict(dict)
    for speed in speeds:
        kind = (speed.op, speed.peer, speed.bytes)
        moved[kind] += speed.bytes * speed.seen
        members[speed.group_rank][kind] = speed
    kinds = sorted(moved, key=lambda kind: (-moved[kind], kind[0], kind[1] or 0))[:COLUMNS]
    far = {kind: _far(kind, members) for kind in kinds}
    rows = {
        rank: tuple(_cell(own.get(kind), rank in far[kind]) for kind in kinds) for rank, own in sorted(members.items())
    }
    ranks = {rank: _global(next(iter(own.values())), owners) for rank, own in members.items()}
    odd = {rank for one in far.values() for rank in one}
    first = speeds[0]
    times = [speed.at for speed in speeds if speed.at is not None]
    return CollectiveGrid(
        name=comm,
        description=first.name if first.name != "unknown" else "",
        size=first.size,
        witness="NCCL Inspector",
        at=max(times, default=None),
        sources=tuple(sorted({speed.source for speed in speeds})),
        seen=len(members),
        columns=tuple(GridColumn(op, size(message), "GB/s" if peer is None else f"GB/s to {peer}")
                      for op, peer, message in kinds),
        lines=tuple(renumbered(line, ranks) for line in folded_lines(rows, odd)),
    )  # fmt: skip


def _far(kind: _Kind, members: Mapping[int, Mapping[_Kind, CommSpeed]]) -> set[int]:
    """Ranks whose speed in a large collective is far from their peers', above (who comes last) or below."""
    own = {rank: speeds[kind] for rank, speeds in members.items() if kind in speeds and speeds[kind].seen >= ENOUGH}
    _, peer, message = kind
    if peer is not None or message < LARGE or len(own) < PEERS:
        return set()
    usual = median(speed.median for speed in own.values())
    return {rank for rank, speed in own.items() if speed.median > FAR * usual or speed.median * FAR < usual}


def _cell(speed: CommSpeed | None, odd: bool) -> GridCell:
    if speed is None:
        return GridCell("unknown", "")
    text = f"{speed.median:.3g} {speed.low:.3g}-{speed.high:.3g}"
    return GridCell("differs" if odd else "value", text)


def _global(speed: CommSpeed, owners: Owners) -> int | None:
    if speed.global_rank is not None:
        return speed.global_rank
    known = owners.of(speed.host, speed.pid)
    return known[0] if len(known) == 1 else None
