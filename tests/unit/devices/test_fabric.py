"""The source of ports: sysfs where it has them, the tools where it has not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collectors.node.network.fabric import Fabric, HcaPort, parse_perfquery
from collectors.node.source import Absent, Shared
from collectors.samples.host import Counters, PortFacts
from hangtop.demo.devices.bench import Bench, Hardware
from tests.support.looks import look, until, until_raised
from tests.support.sysfs import write_port


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fabric:
    monkeypatch.setattr("collectors.node.child.PLACES", ())
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    return Fabric(Shared(), sys=str(tmp_path / "sys"))


def test_ports_and_counters_from_sysfs(tmp_path: Path, source: Fabric) -> None:
    write_port(tmp_path / "sys", "mlx5_0", counters={"port_xmit_data": 10, "symbol_error": 0})
    samples, error = look(source)
    assert error is None
    facts, counters = samples
    assert isinstance(facts, PortFacts)
    assert (facts.device, facts.state) == ("mlx5_0", "ACTIVE")
    assert counters == Counters("mlx5_0/1", "sysfs", {"port_xmit_data": 40, "symbol_error": 0})


def test_a_port_without_counters_in_sysfs_is_asked_by_perfquery(tmp_path: Path, source: Fabric) -> None:
    Bench(tmp_path, Hardware(ports=1)).install()
    write_port(tmp_path / "sys", "mlx5_0")
    counters = until(source, Counters)
    assert (counters.of, counters.source) == ("mlx5_0/1", "perfquery-x")
    assert counters.values["port_xmit_data"] == 0


def test_without_sysfs_the_tools_show_ports_and_counters(tmp_path: Path, source: Fabric) -> None:
    bench = Bench(tmp_path, Hardware(ports=2))
    bench.install()
    samples, _ = look(source)
    facts = [sample for sample in samples if isinstance(sample, PortFacts)][1]
    assert (facts.device, facts.state, facts.rate, facts.link_layer) == ("mlx5_1", "ACTIVE", 400.0, "InfiniBand")
    counters = [sample for sample in samples if isinstance(sample, Counters)]
    assert [(one.of, one.source) for one in counters] == [("mlx5_0/1", "perfquery-x"), ("mlx5_1/1", "perfquery-x")]
    bench.plant("port1 down")
    assert until(source, PortFacts, lambda facts: facts.state == "DOWN").device == "mlx5_1"


def test_a_node_without_adapters(source: Fabric) -> None:
    assert str(until_raised(source, Absent)) == "no InfiniBand or RoCE adapter on this node"


def test_a_counter_that_gives_an_error_is_left_alone_and_a_port_that_refuses_all_is_asked_once(tmp_path: Path) -> None:
    home = write_port(
        tmp_path, "mlx5_0", counters={"port_rcv_data": 1, "VL15_dropped": 0},
        hw_counters={"packet_seq_err": 0, "note": "text", "lifespan": 10},
    )  # fmt: skip
    (home / "counters/symbol_error").mkdir()  # reading a folder fails as reading a refused counter does
    counters = HcaPort(str(home))
    whole = {"port_rcv_data": 4, "VL15_dropped": 0, "packet_seq_err": 0}
    assert (counters.counters(), counters.error) == (whole, "symbol_error: Is a directory")
    (home / "counters/symbol_error").rmdir()
    write_port(tmp_path, "mlx5_0", counters={"symbol_error": 7, "port_rcv_data": 2})
    assert counters.counters() == {**whole, "port_rcv_data": 8}
    other = write_port(tmp_path, "mlx5_1", counters={"link_downed": 1})
    (other / "counters/port_xmit_data").mkdir()
    refusing = HcaPort(str(other))
    assert refusing.counters() == {}
    (other / "counters/port_xmit_data").rmdir()
    assert refusing.counters() == {}


# --- what perfquery prints ----------------------------------------------------------------------------------------


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
