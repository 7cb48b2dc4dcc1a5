"""The settings and versions of all ranks, those that are alike together: what most have in common is read once.

To be asked through :meth:`~hangtop.diagnosis.job.Job.once`, so that all rules of the lint share the answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hangtop.diagnosis.job import Job, Rank
from hangtop.diagnosis.yielding import paced


class Alike(NamedTuple):
    """Ranks that have one and the same table of settings, or of versions, by their places among all of the job's."""

    table: Mapping[str, str]
    places: list[int]


def _by_number(job: Job) -> list[Rank]:
    return sorted(job.ranks, key=lambda rank: rank.rank)


def _alike(tables: Iterable[Mapping[str, str]]) -> list[Alike]:
    """Put tables together that are the same object: a session holds what thousands of ranks have in common once."""
    found: dict[int, Alike] = {}
    for place, table in enumerate(tables):
        found.setdefault(id(table), Alike(table, [])).places.append(place)
    return list(found.values())


def environments(job: Job) -> list[Alike]:
    """Settings of the ranks."""
    return _alike(rank.process.env for rank in paced(job.once(_by_number)))


def versions(job: Job) -> list[Alike]:
    """Versions of torch, NCCL and CUDA in the ranks' processes."""
    return _alike(rank.process.versions for rank in paced(job.once(_by_number)))


def settings(job: Job) -> dict[tuple[str, str], list[Rank]]:
    """Ranks by name and value, both in order."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for table, places in job.once(environments):
        for setting in table.items():
            found[setting] += places
    return {setting: ranks_at(job, places) for setting, places in sorted(found.items())}


def ranks_at(job: Job, places: Iterable[int]) -> list[Rank]:
    """The ranks of these places, in order."""
    ranks = job.once(_by_number)
    return [ranks[place] for place in sorted(places)]
