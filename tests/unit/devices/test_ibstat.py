"""What ibstat prints."""

from hypothesis import given
from hypothesis import strategies as st

from collectors.node.network.ibstat import parse

TWO = """\
CA 'mlx5_0'
	CA type: MT4129
	Number of ports: 1
	Firmware version: 28.39.1002
	Hardware version: 0
	Node GUID: 0xa088c20300000000
	System image GUID: 0xa088c20300000000
	Port 1:
		State: Active
		Physical state: LinkUp
		Rate: 400
		Base lid: 1719
		LMC: 0
		SM lid: 1
		Capability mask: 0xa751e848
		Port GUID: 0xa088c20300000000
		Link layer: InfiniBand
CA 'mlx5_bond_0'
	CA type: MT4125
	Number of ports: 2
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
    ports = parse(TWO)
    assert [(port.device, port.port, port.state, port.phys_state, port.rate) for port in ports] == [
        ("mlx5_0", 1, "ACTIVE", "LinkUp", 400.0),
        ("mlx5_bond_0", 1, "INIT", "LinkUp", 100.0),
        ("mlx5_bond_0", 2, "DOWN", "Polling", 10.0),
    ]
    assert [(port.lid, port.sm_lid, port.link_layer) for port in ports] == [
        (1719, 1, "InfiniBand"),
        (65535, 0, "InfiniBand"),
        (0, 0, "Ethernet"),
    ]
    assert (ports[0].board, ports[0].firmware, ports[2].board) == ("MT4129", "28.39.1002", "MT4125")


def test_a_cut_off_output_gives_what_there_is() -> None:
    (port,) = parse(TWO[: TWO.index("Base lid")])
    assert (port.state, port.lid, port.sm_lid, port.link_layer) == ("ACTIVE", None, None, "")


def test_another_text_has_no_ports() -> None:
    assert parse("ibpanic: [1] main: stat of IB device failed\n") == []


@given(
    st.lists(st.sampled_from([*TWO.splitlines(), "", "Port 1:", "CA ''", "a: b: c", "Rate: x"]), max_size=40), st.text()
)
def test_nothing_raises(lines: list[str], end: str) -> None:
    for port in parse("\n".join(lines) + end):
        assert port.device
