"""Tables of collectives: what columns, cells, lines and tables are, whoever witnesses them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from hangtop.diagnosis.phrasing import ranks_text

State = Literal["done", "open", "differs", "absent", "unknown", "value"]
"""``absent``: others wait in it and this rank has not launched it; ``unknown``: nothing tells."""


class GridColumn(NamedTuple):
    """What the cells below are about: ``#1829``, ``all_reduce``, ``4096 f32``."""

    head: str
    title: str
    note: str


class GridCell(NamedTuple):
    """What the ranks of a line did there."""

    state: State
    text: str


@dataclass(frozen=True, slots=True)
class GridLine:
    """Ranks of a group that are alike in every column. ``ranks`` are global; empty where nothing tells them."""

    ranks: tuple[int, ...]
    label: str
    cells: tuple[GridCell, ...]
    odd: bool


@dataclass(frozen=True, slots=True)
class CollectiveGrid:
    """One group, as one witness saw it. ``at`` is when it last did, ``sources`` where it says so.

    ``aged`` is False for dumps of which nobody knows when they were written: ``at`` is their newest entry then.
    """

    name: str
    description: str
    size: int | None
    witness: Literal["flight recorder", "NCCL log", "NCCL RAS"]
    at: float | None
    sources: tuple[str, ...]
    seen: int
    """Members that the witness speaks of."""
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


def renumbered(line: GridLine, ranks: Mapping[int, int | None]) -> GridLine:
    """The same, by global ranks where they are known; ranks within the communicator are said to be that."""
    known = tuple(sorted(rank for number in line.ranks if (rank := ranks.get(number)) is not None))
    if len(known) == len(line.ranks):
        return replace(line, ranks=known, label=ranks_text(known))
    return replace(line, ranks=known, label=f"{ranks_text(line.ranks)} of it")


def folded_lines(rows: Mapping[int, tuple[GridCell, ...]], accused: Collection[int]) -> Iterator[GridLine]:
    """Ranks with the same cells as one line: the accused first, then the fewest."""
    alike: dict[tuple[bool, tuple[GridCell, ...]], list[int]] = defaultdict(list)
    for rank, cells in rows.items():
        alike[rank in accused, cells].append(rank)
    ordered = sorted(alike.items(), key=lambda item: (not item[0][0], len(item[1]), item[1]))
    for (odd, cells), ranks in ordered:
        yield GridLine(tuple(ranks), ranks_text(ranks), cells, odd)
