"""The demo's ranks: one process each, started as a launcher would, logs to files."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hangtop.demo.job import joining
from hangtop.demo.options import DEVICE_FAULTS, DemoOptions

NODE = "HANGTOP_DEMO_NODE"
"""Environment variable that says which node a rank belongs to: the folder of its devices, so that two demos at a time
do not see each other's ranks."""
TEMPORARY = "tmp"
"""A node's temporary folder, in the folder of its devices."""
_JOB = Path(__file__).parent / "job" / "train.py"
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class RankSeat:
    """Where a rank lives."""

    rank: int
    node: int
    local: int


def places(options: DemoOptions) -> list[RankSeat]:
    """Consecutive ranks share a node, as launchers have it."""
    return [RankSeat(rank, *divmod(rank, options.ranks_per_node)) for rank in range(options.ranks)]


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def environment(options: DemoOptions, place: RankSeat, port: int, devices: Path) -> dict[str, str]:
    """A rank's environment: this process's own, less what another job may have left in it."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "TORCH", "SLURM_"))}
    return {
        **inherited,
        "RANK": str(place.rank),
        "LOCAL_RANK": str(place.local),
        "GROUP_RANK": str(place.node),
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
    """What every rank runs. A device's fault is none of the job's."""
    fault = "" if options.fault in DEVICE_FAULTS else options.fault
    return [
        sys.executable, str(_JOB), "--folder", str(folder), "--fault", fault, "--fault-rank", str(options.fault_rank),
        "--after", str(options.after), "--step-time", str(options.step_time),
    ]  # fmt: skip


def start(
    options: DemoOptions, folder: Path, devices: Callable[[int], Path], setup: Callable[[], None]
) -> list[subprocess.Popen[bytes]]:
    """Start every rank; ``setup`` runs in each before its program. Logs are ``folder/logs/rankN.{out,err}``.

    They lie where torchrun keeps its ranks', too: below the node's temporary folder.
    """
    logs = folder / "logs"
    logs.mkdir()
    data = folder / "data"
    data.mkdir()
    port = free_port()
    started = []
    for place in places(options):
        _keep(devices(place.node) / TEMPORARY, place, logs)
        with (logs / f"rank{place.rank}.out").open("wb") as out, (logs / f"rank{place.rank}.err").open("wb") as err:
            started.append(
                subprocess.Popen(
                    command(options, data),
                    env=environment(options, place, port, devices(place.node)),
                    cwd=data,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    preexec_fn=setup,  # noqa: PLW1509 - set before any thread exists
                )
            )
    return started


def _keep(temporary: Path, place: RankSeat, logs: Path) -> None:
    """Let a rank's logs be found by the names that torchelastic gives them."""
    folder = temporary / "torchelastic_demo" / "demo_0" / "attempt_0" / str(place.local)
    folder.mkdir(parents=True)
    for name, stream in (("stdout.log", "out"), ("stderr.log", "err")):
        (folder / name).symlink_to(logs / f"rank{place.rank}.{stream}")


def training(folder: Path, options: DemoOptions) -> bool:
    """Whether every rank has printed its first step."""
    return all((folder / "logs" / f"rank{rank}.out").stat().st_size for rank in range(options.ranks))
