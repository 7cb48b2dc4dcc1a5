"""Logs of ranks that should run on this node and do not: named like those of the ranks beside them, but for a number.

Who comes to look at a job that hangs mostly comes after one of its ranks has ended, and no process holds that one's
files open any more.
"""

from __future__ import annotations

import os
import stat
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from collectors.node import late_re as re
from collectors.node.logs import file_names
from collectors.node.logs.following.log_paths import WantedLog, inode_of
from collectors.samples.ranks import RankProcess

BEFORE = 5.0
"""Seconds before the start of the first of the others in which a file may have been written last."""
MOST = 64
"""Ranks that are looked for on one node."""
TOKENS = 8
"""Numbers of a path that are tried."""
_NUMBER = re.compile(r"\d{1,9}")


class RankNumbers(NamedTuple):
    """The numbers by which files are named."""

    rank: int
    local: Optional[int]


def missing(ranks: Sequence[RankProcess]) -> Iterator[Tuple[RankNumbers, List[RankProcess]]]:
    """Each rank that is not there, with the ranks of its run that are, the nearest first.

    Where nothing tells how many should run on a node, those between two that do.
    """
    runs: Dict[Tuple[object, ...], List[RankProcess]] = {}
    for rank in ranks:
        if rank.rank >= 0:
            runs.setdefault((rank.run_id, rank.master_addr, rank.master_port, rank.world_size), []).append(rank)
    for beside in runs.values():
        here = {rank.rank for rank in beside}
        for place in _expected(beside)[:MOST]:
            if place.rank not in here:
                yield place, sorted(beside, key=lambda rank: abs(rank.rank - place.rank))


def _expected(beside: Sequence[RankProcess]) -> List[RankNumbers]:
    firsts = {rank.rank - rank.local_rank for rank in beside if rank.local_rank is not None}
    sizes = {rank.local_world_size for rank in beside if rank.local_world_size}
    if len(firsts) == 1 and len(sizes) == 1:
        first = firsts.pop()
        return [RankNumbers(first + local, local) for local in range(min(sizes.pop(), 4 * MOST))]
    numbers = [rank.rank for rank in beside]
    return [RankNumbers(number, None) for number in range(min(numbers), min(max(numbers), min(numbers) + 4 * MOST))]


def named_alike(path: str, own: RankNumbers, theirs: RankNumbers) -> Iterator[str]:
    """What the file of ``theirs`` may be called where that of ``own`` is ``path``; the likeliest first.

    All numbers at once that are a rank's, or a local rank's, then one at a time from the end of the path.
    """
    for mine, other in ((own.rank, theirs.rank), (own.local, theirs.local)):
        if mine is None or other is None or mine == other:
            continue
        spans = [found.span() for found in _NUMBER.finditer(path) if int(found.group()) == mine][-TOKENS:]
        for chosen in ([spans] if len(spans) > 1 else []) + [[span] for span in reversed(spans)]:
            made = path
            for begin, end in reversed(chosen):
                made = made[:begin] + str(other).zfill(end - begin if path[begin] == "0" else 0) + made[end:]
            yield made


def logs_of_absent(ranks: Sequence[RankProcess], found: Sequence[WantedLog]) -> Iterator[WantedLog]:
    """Files of ranks that should run here and do not, by those that were found for the others."""
    files: Dict[Optional[int], List[WantedLog]] = {}
    for wanted in found:
        if not wanted.why:
            files.setdefault(wanted.pid, []).append(wanted)
    taken = {inode_of(wanted.path) for wanted in found}
    for place, beside in missing(ranks):
        streams: Dict[str, List[Tuple[RankProcess, str]]] = {}
        for rank in beside:
            for wanted in files.get(rank.pid, []):
                streams.setdefault(wanted.stream, []).append((rank, wanted.path))
        for stream, known in streams.items():
            path = _file_of(place, known, taken)
            if path:
                yield WantedLog(path, None, place.rank, stream, "", beside[0].uid)


def _file_of(place: RankNumbers, beside: Sequence[Tuple[RankProcess, str]], taken: Set[Tuple[int, int]]) -> str:
    """The file of a rank that is not there; empty where none is found.

    ``beside`` are the others with a path of each, ``taken`` their files' devices and inodes. It is a file of the same
    owner, written since they started, and its name does not say that it is another rank's.
    """
    started = min((rank.started for rank, _ in beside), default=0.0)
    for rank, path in beside:
        for made in named_alike(path, RankNumbers(rank.rank, rank.local_rank), place):
            if file_names.hints(made).rank in (None, place.rank) and _serves(made, path, started - BEFORE, taken):
                return made
    return ""


def _serves(made: str, path: str, since: float, taken: Set[Tuple[int, int]]) -> bool:
    try:
        found, own = os.stat(made), os.stat(path)
    except OSError:
        return False  # there is none of that name, or it may not be looked at
    fresh = found.st_mtime >= since and (found.st_dev, found.st_ino) not in taken
    return fresh and stat.S_ISREG(found.st_mode) and found.st_uid == own.st_uid
