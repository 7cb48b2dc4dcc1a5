"""Join the job's process group, with a flight recorder whose pipe works over gloo, too."""

from __future__ import annotations

import os
import threading
from pathlib import Path

PIPE, STEM = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "TORCH_FR_DUMP_TEMP_FILE"


def join() -> None:
    """Join over gloo. With a master on loopback, ranks use loopback, because host names may not resolve."""
    import torch.distributed as dist  # here: the process that starts ranks needs only PIPE and STEM

    if os.environ["MASTER_ADDR"] == "127.0.0.1":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    _serve_recorder(int(os.environ["RANK"]))
    dist.init_process_group("gloo")


def _serve_recorder(rank: int) -> None:
    """Do what torch's monitor does only for NCCL: a write to ``<pipe><rank>.pipe`` makes a dump, ``<stem><rank>``.

    Do nothing if the environment names no pipe.
    """
    if PIPE not in os.environ or STEM not in os.environ:
        return
    pipe, dump = Path(f"{os.environ[PIPE]}{rank}.pipe"), Path(f"{os.environ[STEM]}{rank}")
    os.mkfifo(pipe)
    threading.Thread(target=_listen, args=(pipe, dump), name="recorder", daemon=True).start()


def _listen(pipe: Path, dump: Path) -> None:
    import torch

    while True:
        with pipe.open("rb") as asked:
            asked.read()
        part = dump.with_name(dump.name + ".part")
        part.write_bytes(torch._C._distributed_c10d._dump_fr_trace(True, True, False))  # noqa: SLF001 - torch's only way
        part.rename(dump)
