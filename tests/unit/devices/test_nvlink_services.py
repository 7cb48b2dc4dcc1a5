"""Fabric Manager, IMEX and the fabric of the GPUs, with tools on PATH and a /dev and /proc of the tests' own."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.node.gpus.nvlink import NvlinkServices
from collectors.node.source import Absent, Shared
from collectors.samples.gpus import FabricService, GpuFabric
from tests.support.looks import look

HGX = "0, Completed, Success, N/A\n1, Completed, Success, N/A\n"
"""As the two captures of drivers 570 and 590 have it."""


class HgxNode:
    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("bin", "dev", "proc/1"):
            (root / name).mkdir(parents=True)
        self.init("systemd")
        (root / "dev/nvidiactl").touch()

    def init(self, comm: str) -> None:
        (self.root / "proc/1/comm").write_text(f"{comm}\n")

    def devices(self, *names: str) -> None:
        for name in names:
            path = self.root / "dev" / name
            path.parent.mkdir(exist_ok=True)
            path.touch()

    def runs(self, pid: int, comm: str) -> None:
        (self.root / f"proc/{pid}").mkdir()
        (self.root / f"proc/{pid}/comm").write_text(f"{comm}\n")

    def tool(self, name: str, script: str) -> None:
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def smi(self, rows: str) -> None:
        (self.root / "rows").write_text(rows)
        self.tool("nvidia-smi", f"cat {self.root}/rows")

    def look(self) -> list[object]:
        root = str(self.root)
        samples, error = look(NvlinkServices(Shared(), proc=f"{root}/proc", dev=f"{root}/dev"))
        if error is not None:
            raise error
        return list(samples)

    def service(self) -> FabricService:
        (found,) = [sample for sample in self.look() if isinstance(sample, FabricService)]
        return found


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HgxNode:
    monkeypatch.setattr("collectors.node.child.PLACES", ())
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/bin:/usr/bin")
    return HgxNode(tmp_path)


def test_no_fabric_no_word(machine: HgxNode) -> None:
    for rows in ("", "0, N/A, N/A, N/A, N/A, N/A\n", "0, [N/A], [N/A], [N/A], [N/A], [N/A]\n"):
        machine.smi(rows)
        with pytest.raises(Absent):
            machine.look()
    (machine.root / "dev/nvidiactl").unlink()
    machine.smi(HGX)
    with pytest.raises(Absent):
        machine.look()


def test_a_healthy_hgx_node(machine: HgxNode) -> None:
    machine.smi(HGX)
    machine.devices("nvidia-nvswitch0", "nvidia-nvswitch1", "nvidia-nvswitchctl")
    machine.runs(4711, "nv-fabricmanage")
    assert machine.look() == [
        GpuFabric(0, "Completed", "Success", "N/A"), GpuFabric(1, "Completed", "Success", "N/A"),
        FabricService("nvidia-fabricmanager", "running", "/dev/nvidia-nvswitch0 and 1 more", "process 4711"),
    ]  # fmt: skip


def test_where_no_process_of_it_runs_the_host_knows_and_a_container_does_not(machine: HgxNode) -> None:
    machine.smi(HGX.replace("Completed, Success", "In Progress, N/A"))
    machine.devices("nvidia-nvswitch0")
    assert machine.service() == FabricService(
        "nvidia-fabricmanager", "down", "/dev/nvidia-nvswitch0", "no process of that name runs"
    )
    machine.init("python3")  # a container: the host's processes are others
    assert machine.service().state == "unknown"


def test_imex_where_nodes_share_memory(machine: HgxNode) -> None:
    machine.smi("0, Completed, Success, Healthy\n")
    machine.devices("nvidia-caps-imex-channels/channel0")
    machine.runs(99, "nvidia-imex")
    assert machine.look()[-1] == FabricService(
        "nvidia-imex", "running", "/dev/nvidia-caps-imex-channels/channel0", "process 99"
    )
