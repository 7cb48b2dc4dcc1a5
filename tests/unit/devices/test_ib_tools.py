"""What ibstat and perfquery print."""

from pathlib import Path

import pytest

from collectors.node.network.ib_tools import parse_ibstat, parse_perfquery

EXTENDED = (Path(__file__).parents[2] / "fixtures/devices/perfquery-x.txt").read_text()
TWO = """\
CA 'mlx5_0'
	CA type: MT4129
	Number of ports: 1
	Firmware version: 28.39.1002
	Port 1:
		State: Active
		Physical state: LinkUp
		Rate: 400
		Base lid: 1719
		LMC: 0
		SM lid: 1
		Port GUID: 0xa088c20300000000
		Link layer: InfiniBand
CA 'mlx5_bond_0'
	CA type: MT4125
	Firmware version: 22.31.1014
	Port 1:
		State: Initializing
		Physical state: LinkUp
		Rate: 100
		Base lid: 65535
		SM lid: 0
		Link layer: InfiniBand
	Port 2:
		State: Down
		Physical state: Polling
		Rate: 10
		Base lid: 0
		SM lid: 0
		Link layer: Ethernet
"""


def test_every_port_of_every_adapter() -> None:
    ports = parse_ibstat(TWO)
    assert [(port.device, port.port, port.state, port.phys_state, port.rate, port.lid) for port in ports] == [
        ("mlx5_0", 1, "ACTIVE", "LinkUp", 400.0, 1719),
        ("mlx5_bond_0", 1, "INIT", "LinkUp", 100.0, 65535),
        ("mlx5_bond_0", 2, "DOWN", "Polling", 10.0, 0),
    ]
    assert [port.link_layer for port in ports] == [
        "InfiniBand", "InfiniBand", "Ethernet",
    ]  # fmt: skip
    (cut,) = parse_ibstat(TWO[: TWO.index("Base lid")])
    assert (cut.state, cut.lid, cut.link_layer) == ("ACTIVE", None, "")
    assert parse_ibstat("ibpanic: [1] main: stat of IB device failed\n") == []


def test_extended_counters_of_the_first_port_by_the_kernels_names_and_in_bytes() -> None:
    values = parse_perfquery(EXTENDED)
    assert values["port_xmit_data"] == 36298026860928 * 4
    assert (values["port_xmit_wait"], values["symbol_error"]) == (22730501, 0)
    assert not {"port_select", "portselect", "counterselect"} & values.keys()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("DR path slid 65535; dlid 65535; 0,1 port 3 (CapMask: 0x5300)\nPortRcvErrors:9\n", {"port_rcv_errors": 9}),
        ("Lid 6 port 1\nPortRcvErrors:..007\nPortXmitWait:..0x0a\n", {"port_rcv_errors": 7, "port_xmit_wait": 10}),
    ],
    ids=["a direct route", "leading zeros"],
)
def test_counters_of_a_port(text: str, values: dict[str, int]) -> None:
    assert parse_perfquery("# Port extended counters: " + text) == values
