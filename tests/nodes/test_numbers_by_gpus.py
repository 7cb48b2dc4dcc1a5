"""Real ranks that one parent spawned and that say no number, on simulated GPUs: told by GPU and by place among them."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hangtop.demo.devices.bench import Bench, Hardware
from hangtop.demo.job.device import RECORD
from tests.support.reached import Reached

pytestmark = [pytest.mark.nodes, pytest.mark.torch]

JOB = Path(__file__).parents[1] / "support" / "nameless_jobs" / "job.py"
WHO = 1


@contextmanager
def _job(folder: Path) -> Iterator[int]:
    """Two ranks of mp.spawn, of which one is stuck; gives their parent's pid."""
    env = {**os.environ, "HX_CASE": str(folder), "HX_WHO": str(WHO), "HX_WORLD": "2", "MASTER_ADDR": "127.0.0.1",
           "MASTER_PORT": "29691", "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}  # fmt: skip
    log = folder / "job.out"
    with log.open("wb") as out:
        job = subprocess.Popen([sys.executable, str(JOB), "spawn", "0"], env=env, stdout=out, stderr=out,
                               start_new_session=True)  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while "struck" not in log.read_text():
            assert job.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield job.pid
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()


def _spawned(parent: int) -> list[int]:
    """What it started as ranks, in that order: children are listed as they came."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.mark.parametrize("in_order", [pytest.param(True, marks=pytest.mark.slow), False])
def test_they_are_numbered_where_their_gpus_come_in_the_order_of_their_start(tmp_path: Path, in_order: bool) -> None:
    bench = Bench(tmp_path / "gpus", Hardware(gpus=2, ports=0))
    bench.install()
    with _job(tmp_path) as parent:
        pids = _spawned(parent)
        assert len(pids) == 2
        for gpu, pid in enumerate(pids if in_order else pids[::-1]):
            record = RECORD.pack(pid, 0.0, 0.0, 1 << 30)
            (bench.folder / f"gpu{gpu}.state").write_bytes(record)
        way = f'env PATH={shlex.quote(str(bench.bin))}:{os.environ["PATH"]} sh -c "exec sh" %h'
        answer = Reached(["here", "--via", way, "--watch", "6"], str(tmp_path)).triage()
    first = answer["findings"][0]
    assert (answer["verdict"], first["kind"]) == ("hung", "rank_stuck_in_data")
    told = (first["ranks"], first["processes"])
    assert told == (([WHO], []) if in_order else ([], [f"here:{pids[WHO]}"]))
    if not in_order:
        assert f"process {pids[WHO]} on here (GPU 0) holds up" in first["summary"]
