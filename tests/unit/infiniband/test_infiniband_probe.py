"""The InfiniBand probe with simulated tools: what is measured, what is concluded, and what is not possible."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from collectors.fleet.local import Local
from collectors.probes.infiniband.survey import SurveyedNode, describe, look, pairs, survey
from collectors.probes.path.survey import PathNode
from hangtop.diagnosis.measured.network import PortSeen
from hangtop.diagnosis.measured.network import infiniband_findings as findings
from hangtop.diagnosis.measured.network import infiniband_report as report
from hangtop.diagnosis.measured.probes import MeasuredDirection
from tests.support.ib_tools import install

NODES = [PathNode(name, Local(name), sys.executable, "127.0.0.1") for name in ("a", "b")]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path / "bin"


async def test_ports_tools_and_what_is_missing(tools: Path) -> None:
    looked = (await look(NODES[:1]))["a"]
    assert [f"{port.device}/{port.port} {port.state}" for port in looked.ports] == [
        "mlx5_0/1 PORT_ACTIVE", "mlx5_1/1 PORT_DOWN", "mlx5_bond_0/1 PORT_ACTIVE",
    ]  # fmt: skip
    assert looked.tools >= {"ibv_devinfo", "ib_write_bw", "ibping", "ibtracert"}
    first = looked.active()
    assert first is not None
    assert first.device == "mlx5_0"
    assert looked.active("mlx5_1") is None


async def test_a_pair_is_measured_both_ways_with_ping_and_route(tools: Path) -> None:
    looked = await look(NODES)
    for one in looked.values():
        one.mads = True  # as root on a node with /dev/infiniband
    there, back = await survey(NODES, looked, seconds=1)
    assert (there.a, there.b, there.ports) == ("a", "b", ("mlx5_0/1", "mlx5_0/1"))
    assert (there.tool, there.gbits, there.error) == ("ib_write_bw", 392.01, "")
    assert there.ping == (10, 9, 0.024)
    assert len(there.hops) == 3
    assert (back.a, back.b) == ("b", "a")
    commands = describe(looked, "", 1)
    assert commands[0] == "on a: ib_write_bw -d mlx5_0 -i 1 -p PORT --report_gbits -F -D 1 [ADDRESS]"
    assert (
        commands[1]
        == "on a: ibping -S -C mlx5_0 -P 1; ibping -c 10 -f -C mlx5_0 -P 1 LID; ibtracert -C mlx5_0 -P 1 17 LID"
    )


async def test_a_tool_that_fails_says_why_and_rights_that_lack_are_named(tools: Path) -> None:
    install(tools, broken="ib_write_bw")
    looked = await look(NODES)
    for one in looked.values():
        one.mads = False
    there, _ = await survey(NODES, looked, seconds=1)
    assert there.gbits is None
    assert "Unable to find the Infiniband/RoCE device" in there.error
    assert there.notes == ("ibping and ibtracert need /dev/infiniband/umad* (root) and a LID at both ends",)


async def test_a_node_without_tools_is_left_out_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    looked = (await look(NODES[:1]))["a"]
    if looked.tools:
        pytest.skip("this machine has InfiniBand tools of its own")
    assert "ib_write_bw: not there" in looked.why
    assert pairs({"a": looked, "b": looked}) == []
    assert describe({"a": looked}, "", 1) == []


# --- what is concluded ---------------------------------------------------------------------------------------------

NAMES = ("n1", "n2", "n3", "n4")
PORTS = [PortSeen(name, "mlx5_0/1", "PORT_ACTIVE", 4096, 4096, "InfiniBand", 400.0) for name in NAMES]
PAIR = ("mlx5_0/1", "mlx5_0/1")
GOOD = [MeasuredDirection(a, b, 48.7, "", ports=PAIR) for a in NAMES for b in NAMES if a != b]


def told(ports: list[PortSeen], carried: list[MeasuredDirection]) -> list[tuple[str, tuple[str, ...]]]:
    return [(f.kind, f.nodes) for f in findings(ports, carried, report(ports, carried, {}, 0.0, 1.0))]


def only(name: str, **fields: object) -> list[PortSeen]:
    return [replace(port, **fields) if port.node == name else port for port in PORTS]  # type: ignore[arg-type]


def test_a_good_fabric_accuses_nobody() -> None:
    assert told(PORTS, GOOD) == []


def test_an_mtu_that_differs_from_most() -> None:
    assert told(only("n2", active_mtu=1024), GOOD) == [("mtu_mismatch", ("n2",))]


def test_a_slow_node_a_slow_link_and_one_that_gets_nothing_through() -> None:
    def changed(gbits: float | None, error: str, *names: str) -> list[MeasuredDirection]:
        return [
            one._replace(gigabytes=gbits and gbits / 8, error=error) if set(names) <= {one.a, one.b} else one
            for one in GOOD
        ]

    assert told(PORTS, changed(60.0, "", "n4")) == [("slow_node", ("n4",))]
    assert told(PORTS, changed(60.0, "", "n1", "n2")) == [("slow_link", ("n1", "n2"))]
    assert told(PORTS, changed(None, "Couldn't connect", "n3")) == [("path_blocked", ("n3",))]


def test_all_are_under_what_their_ports_should_carry() -> None:
    half = [one._replace(gigabytes=25.0) for one in GOOD]
    assert told(PORTS, half) == [("bandwidth_low", NAMES)]
    assert told([replace(port, rate=None) for port in PORTS], half) == []


def test_looked_at_nothing_is_not_well() -> None:
    assert report([], [], {}, 0.0, 1.0).outcome == "failed"
    gone = report(PORTS, GOOD, {"n5": "no route to host"}, 0.0, 1.0)
    assert [(f.kind, f.nodes) for f in findings(PORTS, GOOD, gone)] == [("probe_absent", ("n5",))]
    assert SurveyedNode().active() is None
