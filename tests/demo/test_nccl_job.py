"""The demo's job over NCCL: its ranks wait as ranks with GPUs do, below Python, and its GPUs show it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from hangtop.demo.demo import Demo
from hangtop.demo.job.nccl.library import compiler
from hangtop.demo.options import DemoOptions

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not compiler(), reason="a C compiler makes what the ranks wait in"),
]
PY_SPY = Path(sys.executable).with_name("py-spy")


@contextmanager
def stuck(*extra: str, layout: str = "data") -> Iterator[Callable[[int], int]]:
    """A job whose rank 2 blocks in its reader, from when its GPU alone is idle; the ranks' process ids."""
    options = DemoOptions(
        backend="nccl", fault="dataloader", fault_rank=2, after=1, step_time=0.2, layout=layout, extra=extra
    )
    with Demo(options) as demo:

        def pid(rank: int) -> int:
            wanted = {"RANK": str(rank), "HANGTOP_DEMO_DEVICES": str(demo.folder / f"node{rank // 2}")}
            for process in psutil.process_iter():
                try:
                    env = process.environ()
                except psutil.Error:
                    continue
                if wanted.items() <= env.items() and "--library" in process.cmdline():
                    return process.pid
            raise ProcessLookupError(rank)

        until = time.monotonic() + 90
        while idle_ranks(demo.folder) != "2":
            assert time.monotonic() < until, [log.read_text()[-800:] for log in (demo.folder / "logs").iterdir()]
            time.sleep(0.5)
        yield pid


def idle_ranks(folder: Path) -> str:
    """Ranks whose GPUs show nothing while all others are full at little power; "?" while that is not so."""
    rows = []
    for node in ("node0", "node1"):
        words = [str(folder / node / "bin" / "nvidia-smi"), "--query-gpu=utilization.gpu,power.draw"]
        done = subprocess.run([*words, "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True)
        rows += done.stdout.splitlines()
    if any(row not in ("0, 71.00", "100, 252.00") for row in rows) or len(rows) != 4:
        return "?"
    return "".join(str(rank) for rank, row in enumerate(rows) if row == "0, 71.00")


def switches(pid: int) -> tuple[int, int]:
    """Context switches of a main thread: those that it wanted, and the others."""
    status = dict(
        line.split(":\t", 1)
        for line in Path(f"/proc/{pid}/task/{pid}/status").read_text().splitlines()
        if ":\t" in line
    )
    return int(status["voluntary_ctxt_switches"]), int(status["nonvoluntary_ctxt_switches"])


def stack(pid: int) -> list[str]:
    """Frames of the main thread, the native ones too, innermost first; looked at until the first one is known."""
    for _ in range(20):
        done = subprocess.run([PY_SPY, "dump", "--native", "--pid", str(pid)], capture_output=True, text=True)
        frames = [line.strip() for line in done.stdout.partition('"MainThread"')[2].splitlines()[1:]]
        if any("libcudart.so.12" in frame for frame in frames):
            return frames
    raise AssertionError(done.stdout + done.stderr)


def test_a_rank_spins_below_its_own_line_and_its_gpu_says_who_is_missing() -> None:
    with stuck() as pid:
        spinning = pid(0)
        wanted, unwanted = switches(spinning)
        time.sleep(2)
        again = switches(spinning)
        assert again[0] - wanted <= 2, "a thread that spins asks for no switch"
        assert again[1] > unwanted
        assert Path(f"/proc/{spinning}/stat").read_text().rpartition(")")[2].split()[0] == "R"
        frames = stack(spinning)
        assert any(frame.startswith("cudaStreamSynchronize (") for frame in frames)
        python = [frame for frame in frames if ".py:" in frame]
        assert python[0].startswith("log_metrics ("), "no frame of torch's is below the line that asks for the loss"


@pytest.mark.slow
def test_a_full_launch_queue_blocks_a_rank_wherever_it_launches() -> None:
    with stuck("--launch-queue", "24", "--sync-every", "100000") as pid:
        frames = stack(pid(0))
        assert any(frame.startswith("cudaLaunchKernel (") for frame in frames)
        assert not any(frame.startswith("cudaStreamSynchronize (") for frame in frames)


@pytest.mark.slow
def test_a_stage_waits_in_torchs_synchronize_for_its_neighbour() -> None:
    with stuck(layout="pipeline") as pid:
        python = [frame for frame in stack(pid(3)) if ".py:" in frame]
        assert python[0].startswith("synchronize (torch/cuda/__init__.py:")
        assert "_communicate (" in python[1]
