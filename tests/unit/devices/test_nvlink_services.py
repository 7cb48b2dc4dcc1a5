"""Fabric Manager, IMEX and the fabric of the GPUs, with tools on PATH and a /dev and /proc of the tests' own."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.node.gpus.nvlink import NvlinkServices
from collectors.node.source import Absent, Shared
from collectors.samples.host import Reading
from tests.support.looks import look

HGX = "0, Completed, Success, N/A\n1, Completed, Success, N/A\n"
"""As the two captures of drivers 570 and 590 have it."""
JOINED = {"state": "Completed", "status": "Success", "health": "N/A"}
GPUS = [Reading("nvlink", f"GPU {gpu}", {"gpu": gpu, **JOINED}) for gpu in range(2)]
SWITCHES = ("nvidiactl", "nvidia-nvswitch0", "nvidia-nvswitch1", "nvidia-nvswitchctl")
CHANNEL = "nvidia-caps-imex-channels/channel0"


def service(name: str, state: str, needed: str, said: str) -> Reading:
    return Reading("nvlink", name, {"state": state, "needed": needed, "said": said})


MANAGER = service("nvidia-fabricmanager", "running", "/dev/nvidia-nvswitch0 and 1 more", "process 4711")
DOWN = MANAGER._replace(values={**MANAGER.values, "state": "down", "said": "no process of that name runs"})
UNKNOWN = MANAGER._replace(
    values={**MANAGER.values, "state": "unknown", "said": "the host's processes are not seen from here"}
)
IMEX = service("nvidia-imex", "running", f"/dev/{CHANNEL}", "process 99")


@pytest.mark.parametrize(
    ("rows", "devices", "processes", "told"),
    [
        ("", ["nvidiactl"], {1: "systemd"}, None),
        ("0, N/A, N/A, N/A\n", ["nvidiactl"], {1: "systemd"}, None),
        ("0, [N/A], [N/A], [N/A]\n", ["nvidiactl"], {1: "systemd"}, None),
        (HGX, [], {1: "systemd"}, None),
        (HGX, SWITCHES, {1: "systemd", 4711: "nv-fabricmanage"}, [*GPUS, MANAGER]),
        (HGX, SWITCHES, {1: "systemd"}, [*GPUS, DOWN]),
        (HGX, SWITCHES, {1: "python3"}, [*GPUS, UNKNOWN]),
        ("", ["nvidiactl", CHANNEL], {1: "systemd", 99: "nvidia-imex"}, [IMEX]),
    ],
    ids=["no rows", "no fabric", "no fabric in brackets", "no driver", "healthy", "no manager", "a container", "IMEX"],
)
def test_the_fabric_and_its_services(
    rows: str, devices: list[str], processes: dict[int, str], told: list[object] | None,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    files = {f"dev/{name}": "" for name in devices} | {
        f"proc/{pid}/comm": f"{comm}\n" for pid, comm in processes.items()
    }
    for name, content in {**files, "bin/nvidia-smi": f"#!/bin/sh\nprintf '{rows}'\n"}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(0o755)
    monkeypatch.setattr("collectors.node.child.PLACES", ())
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/bin:/usr/bin")
    samples, error = look(NvlinkServices(Shared(), proc=f"{tmp_path}/proc", dev=f"{tmp_path}/dev"))
    assert (samples, type(error)) == ((told, type(None)) if told is not None else ([], Absent))
