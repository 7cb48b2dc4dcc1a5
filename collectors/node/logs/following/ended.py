"""Logs of ranks that have ended: nobody holds them open any more, so they are looked for where they must lie.

A rank that should run beside others wrote files named like theirs, but for a number. The files of a job that has ended
as a whole are in torchelastic's folder (``<temporary folder>/torchelastic_*/<run id>_*/attempt_N/<local rank>/``), and
launchers that still live hold theirs.
"""

from __future__ import annotations

import glob
import os
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from collectors.node import files
from collectors.node import late_re as re
from collectors.node.logs import file_names
from collectors.node.processes.commands import STARTERS
from collectors.node.processes.procfs import split_zeros
from collectors.node.ranks.search import ONLY
from collectors.samples.ranks import RankProcess

RECENT = 1800.0
"""Seconds since its last line for which a log is taken for that of the job that one has come to look at."""
BEFORE = 5.0
"""Seconds before the start of the first of the others in which a missing rank's file may have been written last."""
MOST = 64
"""Files, or missing ranks, that are looked for on one node."""
WORDS = 6
"""Words of a command among which a launcher's name stands: behind an interpreter, its options and ``-m``."""
_ELASTIC = "torchelastic_*/*/attempt_*/*"
ELASTIC_FILES = ("stdout.log", "stderr.log", "error.json")
_NUMBER = re.compile(r"\d{1,9}")
NOWHERE = (0, 0)
"""Device and inode of what is not there."""


class WantedLog(NamedTuple):
    """One file and one of those who write it."""

    path: str
    pid: Optional[int]
    rank: Optional[int]
    stream: str
    why: str
    """Why it cannot be read; empty for a path that may be opened."""
    uid: Optional[int] = None
    """The user whose process named the file: only what that user may read is read; None for any."""


def inode_of(path: str) -> Tuple[int, int]:
    """Device and inode of a path; :data:`NOWHERE` where it cannot be looked at."""
    try:
        status = os.stat(path)
    except OSError:
        return NOWHERE
    return status.st_dev, status.st_ino


# --- ranks that are missing beside others ---------------------------------------------------------------------------


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
        for place in [place for place in _expected(beside) if place.rank not in here][:MOST]:
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
        spans = [found.span() for found in _NUMBER.finditer(path) if int(found.group()) == mine][-8:]
        for chosen in ([spans] if len(spans) > 1 else []) + [[span] for span in reversed(spans)]:
            made = path
            for begin, end in reversed(chosen):
                made = made[:begin] + str(other).zfill(end - begin if path[begin] == "0" else 0) + made[end:]
            yield made


def logs_of_missing(ranks: Sequence[RankProcess], found: Sequence[WantedLog]) -> Iterator[WantedLog]:
    """Files of ranks that should run here and do not, by those that were found for the others.

    A file counts that has the same owner, was written since the others started, and does not say another rank's number.
    """
    taken = {inode_of(wanted.path) for wanted in found}
    for place, beside in missing(ranks):
        since = min(rank.started for rank in beside) - BEFORE
        streams: Set[str] = set()
        for rank in beside:
            for wanted in found:
                if wanted.pid != rank.pid or wanted.why or wanted.stream in streams:
                    continue
                for made in named_alike(wanted.path, RankNumbers(rank.rank, rank.local_rank), place):
                    if file_names.hints(made).rank in (None, place.rank) and _serves(made, wanted.path, since, taken):
                        streams.add(wanted.stream)
                        yield WantedLog(made, None, place.rank, wanted.stream, "", rank.uid)
                        break


def _serves(made: str, path: str, since: float, taken: Set[Tuple[int, int]]) -> bool:
    try:
        found, own = os.stat(made), os.stat(path)
    except OSError:
        return False  # there is none of that name, or it may not be looked at
    fresh = found.st_mtime >= since and (found.st_dev, found.st_ino) not in taken
    return fresh and files.regular(found) and found.st_uid == own.st_uid


# --- a job that has ended --------------------------------------------------------------------------------------------


def launchers(proc: str) -> Iterator[int]:
    """Launchers among the processes that may be looked at."""
    only = os.environ.get(ONLY, "")
    for name in files.list_folder(proc):
        base = "%s/%s" % (proc, name)
        words = split_zeros(files.read_or_none(base + "/cmdline", 4096) or b"")[:WORDS] if name.isdigit() else []
        if not any(os.path.basename(word) in STARTERS for word in words):
            continue
        if not only or only in split_zeros(files.read_or_none(base + "/environ") or b""):
            yield int(name)


def left_behind(now: float) -> List[str]:
    """Files of torchelastic's folders that were written lately, of each run's last attempt alone; newest first."""
    found: Dict[str, float] = {}
    for root in {os.environ.get("TMPDIR") or "/tmp", "/tmp"}:
        for folder in _newest_attempts(glob.glob(os.path.join(glob.escape(root), _ELASTIC))):
            for path in (os.path.join(folder, name) for name in ELASTIC_FILES):
                status = os.stat(path) if os.path.isfile(path) else None
                if status is not None and status.st_size and now - status.st_mtime <= RECENT:
                    found[os.path.realpath(path)] = status.st_mtime
    return sorted(found, key=found.__getitem__, reverse=True)[:MOST]


def _newest_attempts(folders: Sequence[str]) -> Iterator[str]:
    """Of each run's ranks the folders of its last attempt."""
    attempts: Dict[str, Dict[int, List[str]]] = {}
    for folder in folders:
        run, _, number = os.path.dirname(folder).rpartition("_")
        if number.isdecimal():
            attempts.setdefault(run, {}).setdefault(int(number), []).append(folder)
    for numbered in attempts.values():
        yield from numbered[max(numbered)]
