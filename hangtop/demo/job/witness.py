"""Flight recorder dumps on demand, for ranks over gloo: torch's own monitor reads the pipe for NCCL groups alone."""

from __future__ import annotations

import os
import threading
from pathlib import Path

PIPE, STEM = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "TORCH_FR_DUMP_TEMP_FILE"


def serve(rank: int) -> None:
    """Do what torch's monitor does: whatever is written to ``<pipe><rank>.pipe`` makes a dump, ``<stem><rank>``.

    Nothing where the environment names no pipe. The dump includes the stacks of the calls, and all groups.
    """
    if PIPE not in os.environ or STEM not in os.environ:
        return
    pipe, dump = Path(f"{os.environ[PIPE]}{rank}.pipe"), Path(f"{os.environ[STEM]}{rank}")
    os.mkfifo(pipe)
    threading.Thread(target=_listen, args=(pipe, dump), name="recorder", daemon=True).start()


def _listen(pipe: Path, dump: Path) -> None:
    import torch  # here, for who starts the ranks takes the names above and has no need of it

    while True:
        with pipe.open("rb") as asked:
            asked.read()
        part = dump.with_name(dump.name + ".part")
        part.write_bytes(torch._C._distributed_c10d._dump_fr_trace(True, True, False))  # noqa: SLF001 - torch's only way
        part.rename(dump)
