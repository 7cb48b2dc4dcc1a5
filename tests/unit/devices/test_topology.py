"""``nvidia-smi topo -m``: the matrix as drivers print it, what is none, and the node that is wired otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.node.gpus.nvlink import GpuTopology, NvlinkServices
from collectors.node.gpus.nvlink import parse_topology as parse
from collectors.node.source import Absent, Shared
from collectors.samples.host import Reading
from hangtop.demo.devices.bench import Bench
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Node
from hangtop.diagnosis.rules.nodes import topology_differs
from hangtop.diagnosis.series import Timed
from tests.support.looks import look

NAMED = """\
\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tPIX\t0-47,96-143\t0\t\tN/A
GPU1\tNV18\t X \tSYS\t48-95,144-191\t1\t\tN/A
NIC0\tPIX\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
"""
Rows = dict[str, dict[str, str]]


def two(link: str, *names: str) -> Rows:
    one, other = names or ("GPU0", "GPU1")
    return {one: {one: "X", other: link, "numa": "0"}, other: {one: link, other: "X", "numa": "0"}}


TWO, CUT = two("NV18"), two("SYS")


def read(rows: Rows) -> list[Reading]:
    return [Reading("topology", device, dict(links)) for device, links in rows.items()]


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (NAMED, {"GPU0": {"GPU0": "X", "GPU1": "NV18", "mlx5_0": "PIX", "numa": "0"},
                 "GPU1": {"GPU0": "NV18", "GPU1": "X", "mlx5_0": "SYS", "numa": "1"},
                 "mlx5_0": {"GPU0": "PIX", "GPU1": "SYS", "mlx5_0": "X", "numa": ""}}),
        ("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-31\t0\n", {"GPU0": {"GPU0": "X", "numa": "0"}}),
        ("Failed to initialize NVML: Unknown Error\n", {}),
        ("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV2\t0-28\n", {}),
        ("\tGPU0\tGPU1\nGPU0\t X \t\x1b[31m\nGPU1\tNV2\t X \n", {}),
    ],
    ids=["names of NICs below", "one GPU", "no matrix", "a row is missing", "no links"],
)  # fmt: skip
def test_the_matrix_in_what_the_tool_prints(said: str, found: Rows) -> None:
    assert parse(said) == found


def test_the_source_asks_the_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.install()
    monkeypatch.setenv("PATH", f"{bench.bin}:/usr/bin:/bin")
    assert look(GpuTopology(Shared())) == (read(TWO), None)
    bench.plant("gpu1 unlinked")
    assert look(GpuTopology(Shared())) == (read(CUT), None)


def job(*topologies: Rows) -> Job:
    nodes = {}
    for at, rows in enumerate(topologies):
        readings = {(one.source, one.of): Timed(100.0, one) for one in read(rows)}
        nodes[f"node{at}"] = Node(f"node{at}", readings=readings)
    return Job(now=100.0, watched=10.0, live=True, nodes=nodes)


def test_the_node_that_is_wired_otherwise_than_most_is_named() -> None:
    (finding,) = topology_differs(job(TWO, TWO, CUT, TWO))
    assert (finding.kind, finding.nodes) == ("topology_differs", ("node2",))
    assert "GPU0-GPU1 SYS, not NV18" in finding.summary


@pytest.mark.parametrize(
    "topologies",
    [(TWO, TWO, TWO), (TWO, CUT), (TWO, TWO, CUT, CUT), (TWO, TWO, {}), (TWO, TWO, two("SYS", "a", "b"))],
    ids=["alike", "two nodes", "half and half", "one is not known", "other devices"],
)
def test_no_node_is_named_where_none_is_the_odd_one(topologies: tuple[Rows, ...]) -> None:
    assert list(topology_differs(job(*topologies))) == []


# --- Fabric Manager, IMEX and the fabric of the GPUs --------------------------------------------------------------


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
