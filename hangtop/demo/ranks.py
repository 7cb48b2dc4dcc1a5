"""The demo's ranks: one process each, started as by a launcher, with logs in files."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from hangtop.demo.job import joining
from hangtop.demo.options import DEVICE_FAULTS, DemoOptions

NODE = "HANGTOP_DEMO_NODE"
"""Environment variable with the node of a rank: the folder of its devices, so that two demos at a time do not see each
other's ranks."""
_JOB = Path(__file__).parent / "job" / "train.py"
_ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    """A free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def environment(options: DemoOptions, rank: int, port: int, devices: Path) -> dict[str, str]:
    """A rank's environment: this process's own, without variables of NCCL, torch and Slurm."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "TORCH", "SLURM_"))}
    node, local = divmod(rank, options.ranks_per_node)
    return {
        **inherited,
        "RANK": str(rank),
        "LOCAL_RANK": str(local),
        "GROUP_RANK": str(node),
        "WORLD_SIZE": str(options.ranks),
        "LOCAL_WORLD_SIZE": str(options.ranks_per_node),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(_ROOT),
        "PYTHONUNBUFFERED": "1",
        "TORCH_FR_BUFFER_SIZE": "2000",
        joining.STEM: str(devices.parent / "recorder_"),
        joining.PIPE: str(devices.parent / "recorder_"),
        "HANGTOP_DEMO_DEVICES": str(devices),
        NODE: str(devices),
    }


def command(options: DemoOptions, folder: Path) -> list[str]:
    """Command of every rank. The job knows nothing of a fault of a device."""
    fault = "" if options.fault in DEVICE_FAULTS else options.fault
    return [
        sys.executable, str(_JOB), "--folder", str(folder), "--fault", fault, "--fault-rank", str(options.fault_rank),
        "--after", str(options.after),
    ]  # fmt: skip


def start(options: DemoOptions, folder: Path, devices: Callable[[int], Path]) -> list[subprocess.Popen[bytes]]:
    """Start every rank; consecutive ranks share a node. Logs are ``folder/logs/rankN.{out,err}``."""
    logs = folder / "logs"
    logs.mkdir()
    data = folder / "data"
    data.mkdir()
    port = free_port()
    started = []
    for rank in range(options.ranks):
        node = rank // options.ranks_per_node
        with (logs / f"rank{rank}.out").open("wb") as out, (logs / f"rank{rank}.err").open("wb") as err:
            started.append(
                subprocess.Popen(
                    command(options, data),
                    env=environment(options, rank, port, devices(node)),
                    cwd=data,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                )
            )
    return started


def training(folder: Path, options: DemoOptions) -> bool:
    """Whether every rank has printed its first step."""
    return all((folder / "logs" / f"rank{rank}.out").stat().st_size for rank in range(options.ranks))
