"""What perfquery prints."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from collectors.node.network.perfquery import parse

EXTENDED = (Path(__file__).parents[2] / "fixtures/devices/perfquery-x.txt").read_text()
PLAIN = """\
# Port counters: Lid 6 port 1 (CapMask: 0x5300)
PortSelect:......................1
CounterSelect:...................0x0000
SymbolErrorCounter:..............65535
LinkErrorRecoveryCounter:........3
PortXmitData:....................4294967295
PortRcvData:.....................1000
PortXmitWait:....................4294967295
"""
OLD = """\
# Port counters: Lid 6 port 1
SymbolErrors:....................7
XmtData:.........................5
LinkDowned:......................2
"""


def test_extended_counters_by_the_kernels_names_and_in_bytes() -> None:
    first, second = parse(EXTENDED)
    assert (first.lid, first.port, first.extended, second.port) == (1719, 1, True, 2)
    assert first.values["port_xmit_data"] == 36298026860928 * 4
    assert (first.values["port_xmit_wait"], first.values["symbol_error"]) == (22730501, 0)
    assert first.values["port_rcv_packets"] == 32262508468
    assert not {"port_select", "portselect", "counterselect"} & first.values.keys()


def test_a_saturated_data_counter_is_no_figure() -> None:
    (block,) = parse(PLAIN)
    assert not block.extended
    assert "port_xmit_data" not in block.values
    assert block.values["port_rcv_data"] == 4000
    assert (block.values["symbol_error"], block.values["link_error_recovery"]) == (65535, 3)


def test_names_of_an_earlier_decade() -> None:
    (block,) = parse(OLD)
    assert block.values == {"symbol_error": 7, "port_xmit_data": 20, "link_downed": 2}


def test_a_port_by_direct_route() -> None:
    (block,) = parse(
        "# Port extended counters: DR path slid 65535; dlid 65535; 0,1 port 3 (CapMask: 0x5300)\nPortRcvErrors:..9\n"
    )
    assert (block.lid, block.port, block.values) == (None, 3, {"port_rcv_errors": 9})


def test_a_number_may_have_leading_zeros() -> None:
    (block,) = parse("# Port counters: Lid 6 port 1\nPortRcvErrors:..007\nPortXmitWait:..0x0a\n")
    assert block.values == {"port_rcv_errors": 7, "port_xmit_wait": 10}


def test_another_text_has_no_counters() -> None:
    assert parse("perfquery: iberror: failed: can't resolve self port\n") == []
    assert parse("# PortRcvErrorDetails counters: Lid 1719 port 1\nPortLocalPhysicalErrors:....0\n") == []


@given(
    st.lists(st.sampled_from([*EXTENDED.splitlines(), *PLAIN.splitlines(), "", "# Port", ":...1"]), max_size=40),
    st.text(),
)
def test_nothing_raises(lines: list[str], end: str) -> None:
    for block in parse("\n".join(lines) + end):
        assert all(value >= 0 for value in block.values.values())
