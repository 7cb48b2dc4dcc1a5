"""Which rank a process is that does not say it, by what NCCL wrote of it into its log.

``host:pid:tid [0] NCCL INFO ncclCommInitRank comm 0x… rank 3 nranks 8 …`` names the process by its own pid. The largest
communicator is the one of the whole job; a process that has none of the job's size is not numbered by it.
"""

from __future__ import annotations

import os
from typing import Dict, Iterable, Mapping, NamedTuple, Optional, Tuple

from collectors.node.files import link, read_or_none
from collectors.node.procfs import parse_status
from collectors.samples.ranks import RankProcess


class ToldRank(NamedTuple):
    """A rank of the whole job, as a log tells it."""

    rank: int
    world_size: int


Line = Tuple[str, int, int, int]
"""Host, pid, rank and size of one communicator."""


def told_numbers(
    proc: str, ranks: Iterable[RankProcess], lines: Mapping[int, Iterable[Line]], known: Dict[int, ToldRank]
) -> Dict[int, ToldRank]:
    """Numbers of the processes without one, by pid; ``lines`` are those of the files that a process writes.

    ``known`` are those told before, of processes that may have their number by them by now. Nobody is numbered where
    two would have one number, or where communicators of the whole job differ in size.
    """
    nameless = [rank for rank in ranks if rank.rank < 0 or rank.numbered_by == "log"]
    found: Dict[int, ToldRank] = {}
    for rank in nameless:
        told = _largest(_own_lines(proc, rank.pid, lines.get(rank.pid, ()))) or known.get(rank.pid)
        if told is not None and rank.world_size in (None, told.world_size):
            found[rank.pid] = told
    whole = max([told.world_size for told in found.values()], default=0)
    found = {pid: told for pid, told in found.items() if told.world_size == whole}
    return found if len({told.rank for told in found.values()}) == len(found) and whole > 1 else {}


def _largest(lines: Iterable[Line]) -> Optional[ToldRank]:
    sizes = [(size, rank) for _, _, rank, size in lines]
    return ToldRank(max(sizes)[1], max(sizes)[0]) if sizes else None


def _own_lines(proc: str, pid: int, lines: Iterable[Line]) -> Iterable[Line]:
    """Lines about this process: by its pid as it sees it, and by its host where that is this one."""
    base = "%s/%d" % (proc, pid)
    every = list(lines)
    status = parse_status(read_or_none(base + "/status") or b"", pid) if every else None
    if status is None:
        return ()
    here = os.uname().nodename.partition(".")[0]
    foreign = link(base + "/ns/uts") != link(proc + "/self/ns/uts")
    return [
        line for line in every if line[1] == status.inner_pid and (foreign or line[0].partition(".")[0] in ("", here))
    ]
