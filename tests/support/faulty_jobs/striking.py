"""What all jobs here share: HX_FAULT strikes on rank HX_WHO at step HX_STEP; the rank then says "struck"."""

from __future__ import annotations

import os
import sys
from pathlib import Path

FAULT = os.environ.get("HX_FAULT", "none")
WHO = int(os.environ.get("HX_WHO", "-1"))
STEP = int(os.environ.get("HX_STEP", "12"))
RANK = int(os.environ["RANK"])
FOLDER = Path(os.environ["HX_FOLDER"])


def say(word: str) -> None:
    """A line of the rank's standard output."""
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


def strikes(step: int, fault: str, *ranks: int) -> bool:
    """Whether this rank suffers this fault now; ``ranks`` where HX_WHO is not the only one."""
    if fault != FAULT or step != STEP or RANK not in (ranks or (WHO,)):
        return False
    say("struck")
    return True


def dead_file(name: str) -> Path:
    """A path whose opening blocks, as a dead network file system's does: a pipe with nobody at its far end."""
    path = FOLDER / name
    os.mkfifo(path)
    return path
