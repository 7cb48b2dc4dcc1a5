"""What perfquery prints."""

from pathlib import Path

import pytest

from collectors.node.network.ib_tools import parse_perfquery

EXTENDED = (Path(__file__).parents[2] / "fixtures/devices/perfquery-x.txt").read_text()


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
