"""Edges of what counts launches: NCCL RAS over several answers, and NCCL's COLL lines.

Both count what hosts launched, by place within a communicator; ranks are known where a process is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from hangtop.diagnosis.groups import launched, ras
from hangtop.diagnosis.groups.edges import Waits
from hangtop.diagnosis.groups.owners import Owners
from hangtop.diagnosis.job import Job


def told_by_ras(job: Job) -> tuple[ras.Behind, ...]:
    """Communicators of this job whose counts stand still and differ, without those whose laggards wait elsewhere."""
    owners = job.once(Owners)
    found = [one for one in ras.behind(job.ras) if owners.is_ours(one.members.values())]
    ahead = {one.comm: owners.of_members(one.members[rank] for rank in one.ahead) for one in found}
    free = []
    for one in found:
        waiting = {rank for comm, ranks in ahead.items() if comm != one.comm for rank in ranks}
        least = owners.of_members(one.members[rank] for rank in one.least)
        if not least or not set(least) <= waiting:
            free.append(one)
    return tuple(free or found)


def by_ras(job: Job) -> tuple[Waits, ...]:
    """Ranks that launched more of an operation than others of the communicator, over three answers without motion.

    RAS has no counter for Send and Recv: a rank without an edge may wait all the same.
    """
    owners = job.once(Owners)
    found = []
    for one in ras.behind(job.ras):
        if not owners.is_ours(one.members.values()):
            continue
        known = {rank: owners.of_members([member]) for rank, member in one.members.items()}
        for rank in sorted(one.ahead):
            fewer = _global(known, (other for other, number in one.counts.items() if number < one.counts[rank]))
            source = f"NCCL RAS, communicator {one.comm}"
            waiters = known.get(rank, ()) if fewer else ()
            found += [Waits(own, fewer, one.comm, one.op, one.counts[rank], source, certain=True) for own in waiters]
    return tuple(found)


def by_nccl_log(job: Job) -> tuple[Waits, ...]:
    """Ranks that launched more collectives on a communicator than others, by the last COLL line of each.

    Not certain: lines may be late, and a job in motion looks the same for a moment.
    """
    owners = job.once(Owners)
    found = []
    for odd in launched.odd_ones(job.progress):
        if odd.what != "behind" or not owners.is_ours(odd.latest.values()):
            continue
        known = {place: [rank] for place, one in odd.latest.items() if (rank := owners.of_progress(one)) is not None}
        fewer = _global(known, odd.accused)
        for place, one in sorted(odd.latest.items()):
            if place not in odd.accused and fewer:
                source = f"{one.source}:{one.line}"
                found += [
                    Waits(rank, fewer, odd.comm, one.op, odd.numbers[place], source, certain=False, since=one.at)
                    for rank in known.get(place, ())
                ]
    return tuple(found)


def _global(known: Mapping[int, Collection[int]], places: Iterator[int] | Collection[int]) -> tuple[int, ...]:
    return tuple(sorted({rank for place in places for rank in known.get(place, ())}))
