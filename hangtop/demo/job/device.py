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
from pathlib import Path

RECORD = struct.Struct("<qddq")
"""pid, busy since (CLOCK_MONOTONIC; 0: idle), seconds busy in all before that, bytes of memory."""


class Gpu:
    """This rank's simulated GPU."""

    def __init__(self, memory: int) -> None:
        """Say that this process holds ``memory`` bytes on the GPU of its local rank."""
        self._memory = memory
        self._busy = 0.0
        self._record: mmap.mmap | bytearray = bytearray(RECORD.size)
        folder = os.environ.get("HANGTOP_DEMO_DEVICES")
        if folder:
            path = Path(folder) / f"gpu{os.environ.get('LOCAL_RANK', '0')}.state"
            path.write_bytes(bytes(RECORD.size))
            with path.open("r+b") as file:
                self._record = mmap.mmap(file.fileno(), RECORD.size)
        self._write(0.0)

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
