"""Whom a check can be asked of: the whole job, and the process groups of which some witness tells all ranks."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from hangtop.diagnosis.groups.grid import grids
from hangtop.diagnosis.groups.table import CollectiveGrid
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.unnumbered import numbered


@dataclass(frozen=True, slots=True)
class CheckGroup:
    """Ranks of a process group, and how one knows it."""

    ranks: frozenset[int]
    told: str
    """``group 3 tp, by flight recorder``."""


def groups_with(job: Job, ranks: Collection[int]) -> list[CheckGroup]:
    """Process groups that hold all of these ranks, and not all of the job; the smallest first."""
    everybody = {rank.rank for rank in job.ranks if rank.gone_at is None}
    return _groups(grids(job), frozenset(ranks), everybody) if ranks else []


def _groups(tables: Iterable[CollectiveGrid], ranks: frozenset[int], everybody: Collection[int]) -> list[CheckGroup]:
    found: dict[frozenset[int], CheckGroup] = {}
    for table in tables:
        members = table.members()
        if len(members) > 1 and ranks <= members and not members >= set(everybody):
            found.setdefault(members, CheckGroup(members, f"group {table.title()}, by {table.witness}"))
    return sorted(found.values(), key=lambda group: (len(group.ranks), sorted(group.ranks)))


def as_marked(job: Job, ranks: Collection[int]) -> CheckGroup | None:
    """Ranks that somebody marked, if they could be a process group; whether they are one only the job knows."""
    everybody = {rank.rank for rank in job.ranks if rank.gone_at is None}
    if len(ranks) < 2 or len(set(numbered(ranks))) < len(ranks) or everybody <= set(ranks):
        return None
    return CheckGroup(frozenset(ranks), "as marked: answered if they are one process group of the job")
