"""The simulated tools, run as programs: the options that monitors use, and numbers that follow the ranks."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from hangtop.demo.devices.bench import Bench
from hangtop.demo.job.device import RECORD


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    made.install()
    return made


def run(bench: Bench, tool: str, *arguments: str) -> tuple[int, str]:
    done = subprocess.run([bench.bin / tool, *arguments], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout


def use(bench: Bench, gpu: int, pid: int, since: float) -> None:
    (bench.folder / f"gpu{gpu}.state").write_bytes(RECORD.pack(pid, since, 100.0, 40 << 30))


@pytest.mark.parametrize(
    ("since", "row"),
    [
        (0.0, "0, 71.00, 40960"),  # the host works: no kernel runs
        (60.0, "100, 480.00, 40960"),  # a kernel that computes, however late the tool starts
        (-60.0, "100, 252.00, 40960"),  # one that lasts: a collective that spins
    ],
)
def test_load_follows_the_rank(bench: Bench, since: float, row: str) -> None:
    use(bench, 0, os.getpid(), since and time.monotonic() + since)
    query = "--query-gpu=utilization.gpu,power.draw,memory.used"
    assert run(bench, "nvidia-smi", query, "--format=csv,noheader,nounits")[1].splitlines()[0] == row


def test_traffic_follows_the_kernels_that_ended(bench: Bench) -> None:
    use(bench, 1, os.getpid(), time.monotonic() - 60)
    _, said = run(bench, "perfquery", "-x", "-C", "mlx5_1", "-P", "1")
    assert f"PortXmitData:{'.' * 20}{100 * 14_000_000_000 // 4}\n" in said


def test_a_port_that_is_down(bench: Bench) -> None:
    bench.plant("port1 down")
    assert "State: Down" in run(bench, "ibstat", "mlx5_1")[1]
    assert "State: Active" in run(bench, "ibstat", "mlx5_0")[1]
    assert run(bench, "perfquery", "-x", "-C", "mlx5_1", "-P", "1")[0] == 1
