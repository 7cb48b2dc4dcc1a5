"""Record of a rank for the simulated nvidia-smi: whether kernels would run on its GPU, and its memory there.

A rank writes one small record to ``$HANGTOP_DEMO_DEVICES/gpu<LOCAL_RANK>.state``, and the simulated tools read it.
Without the variable, nothing is written: the job has no simulated GPU.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path

RECORD = struct.Struct("<qddqq")
"""pid, busy since (CLOCK_MONOTONIC; 0: idle), seconds busy before that, bytes of memory, and the :class:`KernelKind`
of the kernel that runs (0: unknown)."""


class KernelKind(IntEnum):
    """Kind of the kernel that runs on a GPU."""

    IDLE = 0
    COMPUTES = 1
    COLLECTIVE = 2
    """Spins until its peers have come and the data has been exchanged."""
    HANGS = 3


def shared_record(memory: int) -> mmap.mmap | bytearray:
    """The shared record of this rank's GPU with ``memory`` bytes in use; a private buffer without a simulated GPU."""
    record: mmap.mmap | bytearray = bytearray(RECORD.size)
    folder = os.environ.get("HANGTOP_DEMO_DEVICES")
    if folder:
        path = Path(folder) / f"gpu{os.environ.get('LOCAL_RANK', '0')}.state"
        path.write_bytes(record)
        with path.open("r+b") as file:
            record = mmap.mmap(file.fileno(), RECORD.size)
    RECORD.pack_into(record, 0, os.getpid(), 0.0, 0.0, memory, 0)
    return record


class RankGpu:
    """This rank's simulated GPU."""

    def __init__(self, memory: int) -> None:
        """Record ``memory`` bytes in use on the GPU of this local rank."""
        self._memory = memory
        self._busy = 0.0
        self._record = shared_record(memory)

    def _write(self, since: float) -> None:
        RECORD.pack_into(self._record, 0, os.getpid(), since, self._busy, self._memory, 0)

    @contextmanager
    def kernels(self) -> Iterator[None]:
        """Kernels run inside this context; a collective that never ends stays inside, as NCCL's kernel spins."""
        since = time.monotonic()
        self._write(since)
        try:
            yield
        finally:
            self._busy += time.monotonic() - since
            self._write(0.0)

    def compute(self, seconds: float) -> None:
        """Wait as the host does for the kernels of a step."""
        time.sleep(seconds)
