"""Log files of a job that ended a short while ago: nobody writes them any more, so they are looked for where they lie.

Three places tell: the folder that torchelastic makes for its ranks' output (torch.distributed.elastic:
``<temporary folder>/torchelastic_*/<run id>_*/attempt_N/<local rank>/{stdout.log,stderr.log,error.json}``), what a
launcher that still lives writes to, and the names that nohup and Slurm give to output in the folder of who started it.
"""

from __future__ import annotations

import glob
import os
from typing import Dict, Iterator, List, NamedTuple, Sequence, Tuple

from collectors.node import files
from collectors.node.processes.procfs import split_zeros
from collectors.node.ranks.process_tree import STARTERS
from collectors.node.ranks.search import ONLY

RECENT = 1800.0
"""Seconds since its last line for which a log is taken for that of the job that one has come to look at."""
FILES = 64
"""Files at most, the newest first."""
WORDS = 6
"""Words of a command among which a launcher's name stands: behind an interpreter, its options and ``-m``."""
_ELASTIC = "torchelastic_*/*/attempt_*/*"
_ELASTIC_FILES = ("stdout.log", "stderr.log", "error.json")
_BY_NAME = ("nohup.out", "slurm-*.out")


class Launcher(NamedTuple):
    """A launcher that still lives, and where it was started."""

    pid: int
    folder: str


def launchers(proc: str) -> Iterator[Launcher]:
    """Launchers among the processes that may be looked at."""
    only = os.environ.get(ONLY, "")
    for name in files.list_folder(proc):
        if not name.isdigit():
            continue
        base = "%s/%s" % (proc, name)
        words = split_zeros(files.read_or_none(base + "/cmdline", 4096) or b"")[:WORDS]
        if not any(os.path.basename(word) in STARTERS for word in words):
            continue
        if not only or only in split_zeros(files.read_or_none(base + "/environ") or b""):
            yield Launcher(int(name), files.link(base + "/cwd"))


def left_behind(folders: Sequence[str], now: float) -> List[str]:
    """Files of ended ranks and launchers that were written lately, those of the newest attempt alone.

    ``folders`` are those where launchers were started.
    """
    found: List[Tuple[float, str]] = []
    for root in {os.environ.get("TMPDIR") or "/tmp", "/tmp"}:
        for folder in _newest_attempts(glob.glob(os.path.join(glob.escape(root), _ELASTIC))):
            found += _recent([os.path.join(folder, name) for name in _ELASTIC_FILES], now)
    for folder in {os.path.expanduser("~"), *folders}:
        for pattern in _BY_NAME:
            found += _recent(glob.glob(os.path.join(glob.escape(folder), pattern)), now)
    return [path for _, path in sorted(found, reverse=True)[:FILES]]


def _newest_attempts(folders: Sequence[str]) -> Iterator[str]:
    """Of each run's ranks the folders of its last attempt."""
    last: Dict[str, int] = {}
    for folder in folders:
        attempt = os.path.dirname(folder)
        number = os.path.basename(attempt).rpartition("_")[2]
        if number.isdecimal():
            run = os.path.dirname(attempt)
            last[run] = max(int(number), last.get(run, 0))
    for folder in folders:
        attempt = os.path.dirname(folder)
        if os.path.basename(attempt) == "attempt_%d" % last.get(os.path.dirname(attempt), -1):
            yield folder


def _recent(paths: Sequence[str], now: float) -> Iterator[Tuple[float, str]]:
    """Those of the files that hold something and were written lately, by the names that they really have."""
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            continue
        if status.st_size and now - status.st_mtime <= RECENT and os.path.isfile(path):
            yield status.st_mtime, os.path.realpath(path)
