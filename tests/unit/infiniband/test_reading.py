"""What the InfiniBand tools print, in the formats of their sources."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.probes.infiniband.remote.read import (
    IbPort,
    parse_bandwidth,
    parse_devinfo,
    parse_ping,
    parse_route,
)
from tests.support.ib_tools import BANDWIDTH, DEVINFO, PING, ROUTE


def test_every_port_of_every_adapter() -> None:
    assert parse_devinfo(DEVINFO) == [
        IbPort("mlx5_0", 1, "PORT_ACTIVE", 4096, 4096, 1, 17, "InfiniBand"),
        IbPort("mlx5_1", 1, "PORT_DOWN", 4096, 1024, 0, 65535, "InfiniBand"),
        IbPort("mlx5_bond_0", 1, "PORT_ACTIVE", 4096, 1024, 0, 0, "Ethernet"),
    ]
    assert parse_devinfo("No IB devices found\n") == []


def test_bandwidth_in_every_unit() -> None:
    assert parse_bandwidth(BANDWIDTH) == (65536, 1500000, 392.01)
    old = BANDWIDTH.replace("Gb/sec", "MB/sec")
    found = parse_bandwidth(old)
    assert found is not None
    assert found[2] == pytest.approx(392.01 * 8.388608e-3)
    assert parse_bandwidth(old.replace("MB/sec", "MiB/sec")) == parse_bandwidth(old)
    assert parse_bandwidth("Couldn't connect to 10.0.0.2:18515\nUnable to open file descriptor for socket") is None
    assert parse_bandwidth(BANDWIDTH.replace("Gb/sec", "furlongs")) is None


def test_the_way_through_the_fabric() -> None:
    assert parse_route(ROUTE) == [
        'switch "leaf1" 0x506b4b0300aa0001[12] lid 3',
        'switch "spine 2" 0x506b4b0300aa0002[4] lid 5',
        'ca "node2 mlx5_0" 0x506b4b0300bb0002[1] lid 18',
    ]
    assert parse_route("[1] -> {0x506b4b0300aa0001}[12]") == ["port 0x506b4b0300aa0001[12]"]


def test_ibpings_summary() -> None:
    assert parse_ping(PING) == (10, 9, 0.024)


@given(st.text(max_size=300))
def test_any_text_is_survived(said: str) -> None:
    assert all(port.device for port in parse_devinfo(said))
    for text in (said, BANDWIDTH.splitlines()[-3] + "\n" + said):
        measured = parse_bandwidth(text)
        assert measured is None or min(measured) >= 0
    assert all(parse_route(said))


@given(st.lists(st.sampled_from([*DEVINFO.splitlines(), "port: x", "hca_id:", "\tstate: \t"]), max_size=30))
def test_lines_in_any_order_are_survived(lines: list[str]) -> None:
    for port in parse_devinfo("\n".join(lines)):
        assert port.device
