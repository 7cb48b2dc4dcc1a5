"""What the simulated nvidia-smi shows of a rank: whether kernels would be running on its GPU, and how much memory.

A rank writes one small record into ``$HANGTOP_DEMO_DEVICES/gpu<LOCAL_RANK>.state``; the simulated tools read it.
Without the variable nothing is written: the job then has no simulated GPU.
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

RECORD = struct.Struct("<qddq")
"""pid, busy since (CLOCK_MONOTONIC; 0: idle), seconds busy in all before that, bytes of memory."""
KERNEL = struct.Struct("<q")
"""Behind the record where a rank knows it: what runs, a :class:`KernelKind`."""


class KernelKind(IntEnum):
    """What runs on a GPU."""

    IDLE = 0
    COMPUTES = 1
    COLLECTIVE = 2
    """Spins until its peers are there and the data has gone round."""
    HANGS = 3


def shared_record(memory: int) -> mmap.mmap | bytearray:
    """The record and the kind of kernel of this rank's GPU, which holds ``memory`` bytes; nobody's without a GPU."""
    size = RECORD.size + KERNEL.size
    record: mmap.mmap | bytearray = bytearray(size)
    folder = os.environ.get("HANGTOP_DEMO_DEVICES")
    if folder:
        path = Path(folder) / f"gpu{os.environ.get('LOCAL_RANK', '0')}.state"
        path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            record = mmap.mmap(file.fileno(), size)
    RECORD.pack_into(record, 0, os.getpid(), 0.0, 0.0, memory)
    return record


class RankGpu:
    """This rank's simulated GPU."""

    def __init__(self, memory: int) -> None:
        """Say that this process holds ``memory`` bytes on the GPU of its local rank."""
        self._memory = memory
        self._busy = 0.0
        self._record = shared_record(memory)

    def _write(self, since: float) -> None:
        RECORD.pack_into(self._record, 0, os.getpid(), since, self._busy, self._memory)

    @contextmanager
    def kernels(self) -> Iterator[None]:
        """Kernels run while this is open; a collective that never ends keeps it open, as NCCL's spins."""
        since = time.monotonic()
        self._write(since)
        try:
            yield
        finally:
            self._busy += time.monotonic() - since
            self._write(0.0)

    def compute(self, seconds: float) -> None:
        """Wait as the host waits for a step's kernels."""
        time.sleep(seconds)
