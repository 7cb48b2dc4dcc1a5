"""Which rank a process is that does not say it, by what NCCL and torch wrote of it into its log.

``host:pid:tid [0] NCCL INFO ncclCommInitRank comm 0x… rank 3 nranks 8 …`` names the process by its own pid. The largest
communicator is the one of the whole job; a process that has none of the job's size is not numbered by it.

``[rank3]: …`` and ``[rank3]:[W…`` are what torch puts in front of its own words (torch/_logging/_internal.py,
c10/util/Logging.cpp) once the default group is there: the rank of the whole job. They number a process whose file it is
alone, where no other number was written into it since that process has started.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import Dict, Iterable, Mapping, Optional, Set, Tuple

from collectors.node import late_re as re
from collectors.node.files import link, read_or_none
from collectors.node.logs.lines import times
from collectors.node.processes.procfs import parse_status
from collectors.node.shared import ToldRank
from collectors.samples.ranks import RankProcess

_LABEL = re.compile(rb"^\[rank(\d{1,6})\]:(\[?[IWEF]\d{4} \d\d:\d\d:\d\d)?", re.MULTILINE)
LABELS = 256
"""Labels of one piece of a log that are read: all of one rank's are alike."""

Line = Tuple[str, int, int, int]
"""Host, pid, rank and size of one communicator."""


def told_numbers(
    proc: str,
    ranks: Iterable[RankProcess],
    lines: Mapping[int, Iterable[Line]],
    known: Dict[int, ToldRank],
    labels: Mapping[int, Set[int]],
) -> Dict[int, ToldRank]:
    """Numbers of the processes without one, by pid; ``lines`` are those of the files that a process writes.

    ``labels`` are all numbers that torch's labels show in the files that a process writes alone. ``known`` are those
    told before, of processes that may have their number by them by now. Nobody is numbered where two would have one
    number, or where communicators of the whole job differ in size.
    """
    nameless = [rank for rank in ranks if rank.rank < 0 or rank.numbered_by == "log"]
    found: Dict[int, ToldRank] = {}
    for rank in nameless:
        labelled = labels.get(rank.pid, set())
        told = _largest(_own_lines(proc, rank.pid, lines.get(rank.pid, ()))) or known.get(rank.pid)
        if told is None and len(labelled) == 1:
            told = ToldRank(next(iter(labelled)), None)
        if told is not None and (told.world_size is None or rank.world_size in (None, told.world_size)):
            found[rank.pid] = told
    whole = max([told.world_size for told in found.values() if told.world_size is not None], default=None)
    found = {pid: told for pid, told in found.items() if _fits(told, whole)}
    return found if len({told.rank for told in found.values()}) == len(found) and whole != 1 else {}


def _fits(told: ToldRank, whole: Optional[int]) -> bool:
    return told.world_size == whole or (told.world_size is None and (whole is None or told.rank < whole))


def labelled_in(data: bytes, now: float, *, live: bool) -> Dict[int, float]:
    """Numbers of torch's labels at the beginnings of lines, and when each was written last.

    ``live``: these lines have come just now; of others those that print no time are left out.
    """
    found: Dict[int, float] = {}
    if b"[rank" not in data:
        return found
    for label in islice(_LABEL.finditer(data), LABELS):
        stamp = None if live or label.group(2) is None else times.find(label.group(2).decode().lstrip("["), now)
        at = now if live else None if stamp is None else stamp.at
        if at is not None:
            number = int(label.group(1))
            found[number] = max(at, found.get(number, at))
    return found


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
