"""Whom a check can be asked of: the whole job, and its process groups.

Ranks that called ``hangtop.inside.start()`` tell theirs by their pages; others are known where a flight recorder or
NCCL tells all their ranks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from hangtop.diagnosis.groups.grid import grids
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.unnumbered import numbered

LINE = re.compile(
    r"(?:(?P<first>\d{1,9})-(?P<last>\d{1,9}):(?P<step>[1-9]\d{0,8})|(?P<some>\d{1,9}(?:,\d{1,9})+))"
    r"(?: (?P<name>[ -~]{1,40}))?"
)
"""``0-6:2 mesh_dp``, ``0,3,4``."""
MOST = 4096
"""Ranks of a group whose word is taken, in a job of which fewer than half as many are seen."""


@dataclass(frozen=True, slots=True)
class CheckGroup:
    """Ranks of a process group, and how one knows it."""

    ranks: frozenset[int]
    told: str
    """``group 3 tp, by flight recorder``."""


def groups_with(job: Job, ranks: Collection[int], told: Iterable[str] = ()) -> list[CheckGroup]:
    """Process groups that hold all of these ranks, and not all of the job; the smallest first.

    ``told`` are lines by which the ranks tell theirs (:data:`collectors.samples.page.TOLD_GROUPS`).
    """
    if not ranks:
        return []
    everybody = {rank.rank for rank in job.ranks if rank.gone_at is None}
    known = [
        *_told(told, max(MOST, 2 * len(job.ranks))),
        *((table.members(), f"group {table.title()}, by {table.witness}") for table in grids(job)),
    ]
    found: dict[frozenset[int], CheckGroup] = {}
    for members, words in known:
        if len(members) > 1 and members.issuperset(ranks) and not members >= everybody:
            found.setdefault(members, CheckGroup(members, words))
    return sorted(found.values(), key=lambda group: (len(group.ranks), sorted(group.ranks)))


def _told(lines: Iterable[str], most: int) -> Iterator[tuple[frozenset[int], str]]:
    """Ranks of each line, and whose word it is; what is no such line, or tells of more than ``most``, is left out."""
    for line in dict.fromkeys(lines):
        match = LINE.fullmatch(line)
        if match is None:
            continue
        words = f"group {match['name']}, by its ranks" if match["name"] else "a group, by its ranks"
        if match["some"]:
            yield frozenset(map(int, match["some"].split(","))), words
            continue
        ranks = range(int(match["first"]), int(match["last"]) + 1, int(match["step"]))
        if len(ranks) <= most:
            yield frozenset(ranks), words


def as_marked(job: Job, ranks: Collection[int]) -> CheckGroup | None:
    """Ranks that somebody marked, if they could be a process group; whether they are one only the job knows."""
    everybody = {rank.rank for rank in job.ranks if rank.gone_at is None}
    if len(ranks) < 2 or len(set(numbered(ranks))) < len(ranks) or everybody <= set(ranks):
        return None
    return CheckGroup(frozenset(ranks), "as marked: answered if they are one process group of the job")
