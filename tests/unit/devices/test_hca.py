"""Ports and counters of adapters from sysfs."""

from pathlib import Path

import pytest

from collectors.node.files import read
from collectors.node.network import hca_ports
from collectors.node.network.hca_counters import PAUSE, TURNS, HcaCounters
from tests.support.sysfs import write_port


def watch_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths that are read from now on."""
    reads: list[str] = []

    def noting(path: str) -> bytes:
        reads.append(path)
        return read(path)

    monkeypatch.setattr("collectors.node.network.hca_counters.read", noting)
    return reads


def test_ports_of_all_adapters(tmp_path: Path) -> None:
    write_port(tmp_path, "mlx5_1")
    write_port(tmp_path, "mlx5_0", 1)
    write_port(tmp_path, "mlx5_0", 2)
    assert hca_ports.ports(str(tmp_path)) == [("mlx5_0", 1), ("mlx5_0", 2), ("mlx5_1", 1)]
    assert hca_ports.ports(str(tmp_path / "nothing")) == []


def test_an_infiniband_port(tmp_path: Path) -> None:
    write_port(tmp_path, "mlx5_0")
    facts = hca_ports.facts(str(tmp_path), "mlx5_0", 1)
    assert facts is not None
    assert (facts.state, facts.phys_state, facts.rate, facts.lid, facts.sm_lid) == ("ACTIVE", "LinkUp", 400.0, 0x6B7, 1)
    assert (facts.link_layer, facts.firmware, facts.board, facts.netdev) == ("InfiniBand", "28.39.1002", "MT4129", "")


def test_a_roce_port_names_its_interface(tmp_path: Path) -> None:
    write_port(tmp_path, "mlx5_0", link_layer="Ethernet", netdev="eth2")
    facts = hca_ports.facts(str(tmp_path), "mlx5_0", 1)
    assert facts is not None
    assert (facts.link_layer, facts.netdev) == ("Ethernet", "eth2")


def test_of_two_interfaces_of_an_adapter_the_ports_own_is_named(tmp_path: Path) -> None:
    write_port(tmp_path, "mlx4_0", 2, link_layer="Ethernet")
    for name, number in (("eth0", 0), ("eth1", 1)):
        folder = tmp_path / "class/infiniband/mlx4_0/device/net" / name
        folder.mkdir(parents=True)
        (folder / "dev_port").write_text(f"{number}\n")
    assert hca_ports.netdev(str(tmp_path), "mlx4_0", 2) == "eth1"


def test_a_port_that_has_gone_has_no_facts(tmp_path: Path) -> None:
    assert hca_ports.facts(str(tmp_path), "mlx5_0", 1) is None


def test_all_counters_first_then_those_that_moved(tmp_path: Path) -> None:
    home = write_port(
        tmp_path, "mlx5_0", counters={"port_xmit_data": 100, "VL15_dropped": 0}, hw_counters={"packet_seq_err": 0}
    )
    counters = HcaCounters(str(home))
    assert counters.changed(0.0) == {"port_xmit_data": 400, "vl15_dropped": 0, "packet_seq_err": 0}
    assert counters.changed(1.0) == {}
    write_port(tmp_path, "mlx5_0", counters={"port_xmit_data": 110}, hw_counters={"packet_seq_err": 5})
    seen: dict[str, int] = {}
    for look in range(TURNS):
        seen.update(counters.changed(2.0 + look))
    assert seen == {"port_xmit_data": 440, "packet_seq_err": 5}


def test_counters_of_little_hurry_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {f"counter_{number}": number for number in range(20)}
    home = write_port(tmp_path, "mlx5_0", counters={"port_rcv_data": 1, **names})
    counters = HcaCounters(str(home))
    counters.changed(0.0)
    reads = watch_reads(monkeypatch)
    for look in range(TURNS):
        counters.changed(1.0 + look)
    assert len(reads) == TURNS + len(names)
    assert len(set(reads)) == 1 + len(names)


def test_a_counter_that_gives_an_error_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = write_port(tmp_path, "mlx5_0", counters={"port_rcv_data": 1})
    (home / "counters/bad").mkdir()  # reading a folder fails as reading a refused counter does
    counters = HcaCounters(str(home))
    assert counters.changed(0.0) == {"port_rcv_data": 4}
    assert counters.error == "bad: Is a directory"
    assert counters.usable
    reads = watch_reads(monkeypatch)
    for look in range(2 * TURNS):
        counters.changed(1.0 + look)
    assert not any(path.endswith("bad") for path in reads)
    for look in range(TURNS):
        counters.changed(PAUSE + 1.0 + look)
    assert sum(path.endswith("bad") for path in reads) == 1


def test_a_port_that_refuses_everything_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = write_port(tmp_path, "mlx5_0")
    for number in range(30):
        (home / f"counters/counter_{number}").mkdir(parents=True)
    reads = watch_reads(monkeypatch)
    counters = HcaCounters(str(home))
    for look in range(3 * TURNS):
        assert counters.changed(1.0 + look) == {}
    assert len(reads) == 1
    assert not counters.usable


def test_a_saturated_data_counter_is_no_figure(tmp_path: Path) -> None:
    home = write_port(tmp_path, "mlx4_0", counters={"port_xmit_data": (1 << 32) - 1, "symbol_error": 3})
    assert HcaCounters(str(home)).changed(0.0) == {"symbol_error": 3}


def test_a_file_that_is_no_counter_is_passed_over(tmp_path: Path) -> None:
    home = write_port(tmp_path, "mlx5_0", counters={"symbol_error": 3}, hw_counters={"note": "text", "lifespan": 10})
    assert HcaCounters(str(home)).changed(0.0) == {"symbol_error": 3}


def test_a_port_without_counters_has_none_to_use(tmp_path: Path) -> None:
    counters = HcaCounters(str(write_port(tmp_path, "efa_0")))
    assert counters.changed(0.0) == {}
    assert not counters.usable


def test_while_a_watch_is_young_no_error_counter_waits_for_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {f"counter_{number}": number for number in range(20)}
    home = write_port(tmp_path, "mlx5_0", counters={"symbol_error": 1, "link_downed": 0, **names})
    counters = HcaCounters(str(home))
    counters.changed(0.0, errors=True)
    for errors in range(2, 6):
        write_port(tmp_path, "mlx5_0", counters={"symbol_error": errors})
        reads = watch_reads(monkeypatch)
        assert counters.changed(float(errors), errors=True) == {"symbol_error": errors}
        assert len(reads) <= 2 + (len(names) + 2) // TURNS + 1
