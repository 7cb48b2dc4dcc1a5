"""A lock file that is held while a case is played on a machine that others use, too."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held(lock: Path | None) -> Iterator[None]:
    """Hold the lock, where one is named; no child inherits it."""
    if lock is None:
        yield
        return
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
