"""Flight recorders of real ranks, fetched on demand while one rank keeps the other waiting.

torch's own monitor reads the pipe for NCCL groups alone; the ranks here are gloo's, so each has a thread that does what
that monitor does: one byte makes it write the recorder's dump.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from collectors.fleet.local import Local
from collectors.formats import flight_recorder
from collectors.probes.recorder import Dump, fetch
from hangtop.diagnosis.collectives.grid import grids
from hangtop.diagnosis.collectives.recorder import match
from hangtop.diagnosis.job import Job

pytestmark = pytest.mark.torch

RANK = """\
import os, sys, threading, time
import torch, torch.distributed as dist
rank, folder = int(os.environ["RANK"]), sys.argv[1]
stem, pipe = os.environ["TORCH_FR_DUMP_TEMP_FILE"], os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"]
def monitor():
    while True:
        with open(f"{pipe}{rank}.pipe", "rb") as asked:
            asked.read(1)
        with open(f"{stem}{rank}.part", "wb") as dump:
            dump.write(torch._C._distributed_c10d._dump_fr_trace(True, True, False))
        os.rename(f"{stem}{rank}.part", f"{stem}{rank}")
os.mkfifo(f"{pipe}{rank}.pipe")
threading.Thread(target=monitor, daemon=True).start()
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
for step in range(5):
    dist.all_reduce(torch.ones(64))
open(f"{folder}/ready{rank}", "w").close()
if rank == 1:
    time.sleep(60)
dist.all_reduce(torch.ones(64))
"""


def wait_for(folder: Path) -> None:
    deadline = time.monotonic() + 60
    while len(list(folder.glob("ready*"))) < 2:
        assert time.monotonic() < deadline, "the ranks did not come up"
        time.sleep(0.05)
    time.sleep(0.3)  # rank 0 enters the collective that it is left alone in


def ask(pids: list[int]) -> list[Dump]:
    async def fetched() -> list[Dump]:
        node = Local("here")
        try:
            return await fetch(node, "python3", [(rank, pid, 0.0) for rank, pid in enumerate(pids)], fresh=True)
        finally:
            await node.close()

    return asyncio.run(fetched())


@pytest.mark.slow
def test_dumps_that_real_ranks_write_when_asked_name_the_one_that_did_not_come(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/fr_",
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{tmp_path}/pipe_",
        "TORCH_FR_BUFFER_SIZE": "100",
        "WORLD_SIZE": "2",
        "OMP_NUM_THREADS": "1",
    }
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    ranks = [
        subprocess.Popen([sys.executable, str(script), str(tmp_path)], env={**environment, "RANK": str(rank)})
        for rank in range(2)
    ]
    try:
        wait_for(tmp_path)
        dumps = ask([process.pid for process in ranks])
        assert [(dump.rank, dump.why) for dump in dumps] == [(0, ""), (1, "")]
        read = [flight_recorder.read(dump.data, dump.path, dump.rank) for dump in dumps]
        matched = match(read)
        assert (matched.culprits, {edge.waiter for edge in matched.edges}) == ((1,), {0})
        (grid,) = grids(Job(now=time.time(), watched=0.0, live=False, recorders=tuple(read)))
        assert (grid.lines[0].ranks, grid.lines[0].odd, grid.lines[0].cells[-1].state) == ((1,), True, "absent")
        ranks[1].send_signal(signal.SIGSTOP)
        answered, silent = ask([process.pid for process in ranks])
        assert answered.data
        assert silent.why, "a rank that does not answer is evidence, not an error"
    finally:
        for process in ranks:
            process.kill()
            process.wait()
