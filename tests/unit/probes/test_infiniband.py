"""The InfiniBand probe with simulated tools: what is measured, what is concluded, and what is not possible."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.fleet.local import Local
from collectors.probes.infiniband import (
    FabricNode,
    IbPort,
    describe,
    look,
    pairs,
    parse_bandwidth,
    parse_devinfo,
    survey,
)
from collectors.probes.running import NodeAccess
from hangtop.diagnosis.measured.network import PortSeen
from hangtop.diagnosis.measured.network import infiniband_findings as findings
from hangtop.diagnosis.measured.network import infiniband_report as report
from hangtop.diagnosis.measured.probes import MeasuredDirection
from tests.support.ib_tools import BANDWIDTH, DEVINFO, install

NODES = [NodeAccess(name, Local(name), sys.executable, "127.0.0.1") for name in ("a", "b")]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path / "bin"


@pytest.mark.usefixtures("tools")
async def test_a_pair_is_measured_both_ways_with_ping_and_route() -> None:
    looked = await look(NODES)
    assert [f"{port.name} {port.state}" for port in looked["a"].ports] == [
        "mlx5_0/1 PORT_ACTIVE", "mlx5_1/1 PORT_DOWN", "mlx5_bond_0/1 PORT_ACTIVE",
    ]  # fmt: skip
    assert looked["a"].active("mlx5_1") is None
    assert "ib_send_bw: not there" in looked["a"].why
    there, back = await survey(NODES, looked, seconds=1)
    assert (there.a, there.b, there.ports) == ("a", "b", ("mlx5_0/1", "mlx5_0/1"))
    assert (there.tool, there.gbits, there.error, there.notes) == ("ib_write_bw", 392.01, "", ())
    assert there.ping[0].startswith("10 packets transmitted, 9 received")
    assert there.hops[0] == '[1] -> switch port {0x506b4b0300aa0001}[12] lid 3-3 "leaf1"'
    assert (back.a, back.b) == ("b", "a")
    commands = describe(looked, "", 1)
    assert commands[0] == "on a: ib_write_bw -d mlx5_0 -i 1 -p PORT --report_gbits -F -D 1 [ADDRESS]"
    diags = "ibping -S -C mlx5_0 -P 1; ibping -c 10 -f -C mlx5_0 -P 1 LID; ibtracert -C mlx5_0 -P 1 17 LID"
    assert commands[1] == f"on a: {diags}"


async def test_a_tool_that_fails_says_why(tools: Path) -> None:
    install(tools, broken="ib_write_bw")
    there, _ = await survey(NODES, await look(NODES), seconds=1)
    assert there.gbits is None
    assert "Unable to find the Infiniband/RoCE device" in there.error


async def test_a_node_without_tools_is_left_out_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    looked = (await look(NODES[:1]))["a"]
    if looked.tools:
        pytest.skip("this machine has InfiniBand tools of its own")
    assert "ib_write_bw: not there" in looked.why
    assert pairs({"a": looked, "b": looked}) == []
    assert describe({"a": looked}, "", 1) == []
    assert FabricNode().active() is None


# --- what the tools print ----------------------------------------------------------------------------------------


def test_every_port_of_every_adapter() -> None:
    assert parse_devinfo(DEVINFO) == [
        IbPort("mlx5_0", 1, "PORT_ACTIVE", 4096, 4096, 17, "InfiniBand"),
        IbPort("mlx5_1", 1, "PORT_DOWN", 4096, 1024, 65535, "InfiniBand"),
        IbPort("mlx5_bond_0", 1, "PORT_ACTIVE", 4096, 1024, 0, "Ethernet"),
    ]
    assert parse_devinfo("No IB devices found\n") == []


def test_bandwidth_in_every_unit() -> None:
    assert parse_bandwidth(BANDWIDTH) == 392.01
    old = BANDWIDTH.replace("Gb/sec", "MB/sec")
    assert parse_bandwidth(old) == pytest.approx(392.01 * 8.388608e-3)
    assert parse_bandwidth(old.replace("MB/sec", "MiB/sec")) == parse_bandwidth(old)
    assert parse_bandwidth("Couldn't connect to 10.0.0.2:18515\nUnable to open file descriptor for socket") is None
    assert parse_bandwidth(BANDWIDTH.replace("Gb/sec", "furlongs")) is None


@given(st.text(max_size=300), st.lists(st.sampled_from([*DEVINFO.splitlines(), "port: x", "hca_id:"]), max_size=30))
def test_any_text_is_survived(printed: str, lines: list[str]) -> None:
    assert all(port.device for port in (*parse_devinfo(printed), *parse_devinfo("\n".join(lines))))
    for text in (printed, BANDWIDTH.splitlines()[-3] + "\n" + printed):
        assert (parse_bandwidth(text) or 0.0) >= 0


# --- what is concluded -------------------------------------------------------------------------------------------

NAMES = ("n1", "n2", "n3", "n4")
PORTS = [PortSeen(name, "mlx5_0/1", "PORT_ACTIVE", 4096, 4096, "InfiniBand", 400.0) for name in NAMES]
PAIR = ("mlx5_0/1", "mlx5_0/1")
GOOD = [MeasuredDirection(a, b, 48.7, "", ports=PAIR) for a in NAMES for b in NAMES if a != b]


def named(ports: list[PortSeen], carried: list[MeasuredDirection]) -> list[tuple[str, tuple[str, ...]]]:
    return [(f.kind, f.nodes) for f in findings(ports, carried, report(ports, carried, {}, 0.0, 1.0))]


def only(name: str, **fields: object) -> list[PortSeen]:
    return [replace(port, **fields) if port.node == name else port for port in PORTS]  # type: ignore[arg-type]


def changed(gbits: float | None, error: str, *names: str) -> list[MeasuredDirection]:
    return [
        one._replace(gigabytes=gbits and gbits / 8, error=error) if set(names) <= {one.a, one.b} else one
        for one in GOOD
    ]


@pytest.mark.parametrize(
    ("ports", "carried", "kinds"),
    [
        (PORTS, GOOD, []),
        ([replace(port, state="PORT_DOWN") for port in PORTS], [], []),
        (only("n2", active_mtu=1024), GOOD, [("mtu_mismatch", ("n2",))]),
        (PORTS, changed(60.0, "", "n4"), [("slow_node", ("n4",))]),
        (PORTS, changed(60.0, "", "n1", "n2"), [("slow_link", ("n1", "n2"))]),
        (PORTS, changed(None, "Couldn't connect", "n3"), [("path_blocked", ("n3",))]),
        (PORTS, changed(200.0, ""), [("bandwidth_low", NAMES)]),
        ([replace(port, rate=None) for port in PORTS], changed(200.0, ""), []),
    ],
)
def test_who_is_named(
    ports: list[PortSeen], carried: list[MeasuredDirection], kinds: list[tuple[str, tuple[str, ...]]]
) -> None:
    assert named(ports, carried) == kinds


def test_looked_at_nothing_is_not_well() -> None:
    assert report([], [], {}, 0.0, 1.0).outcome == "failed"
    gone = report(PORTS, GOOD, {"n5": "no route to host"}, 0.0, 1.0)
    assert [(f.kind, f.nodes) for f in findings(PORTS, GOOD, gone)] == [("probe_absent", ("n5",))]
