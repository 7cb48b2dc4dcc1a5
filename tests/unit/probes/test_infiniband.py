"""The InfiniBand probe with simulated tools: what is measured, what is concluded, and what is not possible."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collectors.probes.infiniband import (
    FabricNode,
    FabricSurvey,
    describe,
    look,
    parse_bandwidth,
    parse_devinfo,
)
from collectors.probes.running import NodeAccess
from collectors.samples.probes import IbPort, PathFigure
from hangtop.diagnosis.probes import report_of
from hangtop.session.probes.pairs import infiniband_result
from tests.support.here import here
from tests.support.ib_tools import BANDWIDTH, DEVINFO, install


def nodes() -> list[NodeAccess]:
    return [NodeAccess(name, here(name), "127.0.0.1") for name in ("a", "b")]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path / "bin"


async def measured(looked: dict[str, FabricNode]) -> list[PathFigure]:
    survey = FabricSurvey(nodes(), looked, seconds=1)
    await survey.run()
    return list(survey.directions.values())


@pytest.mark.usefixtures("tools")
async def test_a_pair_is_measured_both_ways_with_ping_and_route() -> None:
    looked = await look(nodes())
    assert [f"{port.device}/{port.port} {port.state}" for port in looked["a"].ports] == [
        "mlx5_0/1 PORT_ACTIVE", "mlx5_1/1 PORT_DOWN", "mlx5_bond_0/1 PORT_ACTIVE",
    ]  # fmt: skip
    there, back = await measured(looked)
    assert (there.a, there.b, there.throughput, there.error) == ("a", "b", 49.00125e9, "")
    assert (looked["a"].why, looked["b"].why) == ([], [])
    assert there.shown[0].startswith("10 packets transmitted, 9 received")
    assert there.shown[2] == '[1] -> switch port {0x506b4b0300aa0001}[12] lid 3-3 "leaf1"'
    assert (back.a, back.b) == ("b", "a")
    commands = describe(looked, 1)
    assert commands[0] == "on a: ib_write_bw -d mlx5_0 -i 1 -p PORT --report_gbits -F -D 1 [ADDRESS]"
    diags = "ibping -S -C mlx5_0 -P 1; ibping -c 10 -f -C mlx5_0 -P 1 LID; ibtracert -C mlx5_0 -P 1 17 LID"
    assert commands[1] == f"on a: {diags}"


# --- what the tools print ----------------------------------------------------------------------------------------


def test_every_port_of_every_adapter() -> None:
    assert parse_devinfo("a", DEVINFO) == [
        IbPort("a", "mlx5_0", 1, "PORT_ACTIVE", 4096, 4096, "InfiniBand", 17),
        IbPort("a", "mlx5_1", 1, "PORT_DOWN", 4096, 1024, "InfiniBand", 65535),
        IbPort("a", "mlx5_bond_0", 1, "PORT_ACTIVE", 4096, 1024, "Ethernet", 0),
    ]
    assert parse_devinfo("a", "No IB devices found\n") == []


def test_the_average_bandwidth() -> None:
    assert parse_bandwidth(BANDWIDTH) == 49.00125e9
    assert parse_bandwidth("Couldn't connect to 10.0.0.2:18515\nUnable to open file descriptor for socket") is None
    assert parse_bandwidth(BANDWIDTH.replace("Gb/sec", "furlongs")) is None


def test_looked_at_nothing_is_not_well() -> None:
    assert infiniband_result({}, [], report_of("infiniband", [], ["n1"], {}, 0.0, 1.0)).outcome == "failed"
