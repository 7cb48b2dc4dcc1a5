"""The memory of a process, as whoever may trace it can read it: nothing is stopped."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import Iterator


@contextmanager
def memory_of(folder: str) -> Iterator[int]:
    """Descriptor for ``os.pread`` at addresses of the process with this folder in /proc. Raises :class:`OSError`."""
    descriptor = os.open(folder + "/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
