"""Ports and counters of adapters from sysfs."""

from pathlib import Path

import pytest

from collectors.node.files import read
from collectors.node.network import hca
from collectors.node.network.hca import PAUSE, TURNS, HcaCounters
from tests.support.sysfs import write_port


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of counters that are read."""
    found: list[str] = []

    def noting(path: str) -> bytes:
        found.append(path)
        return read(path)

    monkeypatch.setattr(hca, "read", noting)
    return found


def test_a_roce_port_names_its_interface(tmp_path: Path) -> None:
    write_port(tmp_path, "mlx5_0", link_layer="Ethernet", netdev="eth2")
    write_port(tmp_path, "mlx4_0", 2, link_layer="Ethernet")
    for name, number in (("eth0", 0), ("eth1", 1)):
        folder = tmp_path / "class/infiniband/mlx4_0/device/net" / name
        folder.mkdir(parents=True)
        (folder / "dev_port").write_text(f"{number}\n")
    facts = [hca.facts(str(tmp_path), *name) for name in (("mlx5_0", 1), ("mlx4_0", 2))]
    assert [one.netdev for one in facts if one is not None] == ["eth2", "eth1"]


def test_all_counters_first_then_those_that_moved(tmp_path: Path) -> None:
    home = write_port(
        tmp_path, "mlx5_0", counters={"port_xmit_data": 100, "VL15_dropped": 0},
        hw_counters={"packet_seq_err": 0, "note": "text", "lifespan": 10},
    )  # fmt: skip
    counters = HcaCounters(str(home))
    assert counters.changed(0.0) == {"port_xmit_data": 400, "vl15_dropped": 0, "packet_seq_err": 0}
    assert counters.changed(1.0) == {}
    write_port(tmp_path, "mlx5_0", counters={"port_xmit_data": 110}, hw_counters={"packet_seq_err": 5})
    seen: dict[str, int] = {}
    for look in range(TURNS):
        seen.update(counters.changed(2.0 + look))
    assert seen == {"port_xmit_data": 440, "packet_seq_err": 5}


@pytest.mark.parametrize("errors", [False, True])
def test_counters_of_little_hurry_take_turns_and_errors_do_not_while_a_watch_is_young(
    tmp_path: Path, reads: list[str], errors: bool
) -> None:
    names = {f"counter_{number}": number for number in range(19)}
    home = write_port(tmp_path, "mlx5_0", counters={"port_rcv_data": 1, "symbol_error": 0, **names})
    counters = HcaCounters(str(home))
    counters.changed(0.0)
    reads.clear()
    for look in range(TURNS):
        counters.changed(1.0 + look, errors=errors)
    assert len(set(reads)) == 2 + len(names)
    assert len(reads) == TURNS + len(names) + (TURNS if errors else 1)


def test_a_counter_that_gives_an_error_is_left_alone(tmp_path: Path, reads: list[str]) -> None:
    home = write_port(tmp_path, "mlx5_0", counters={"port_rcv_data": 1})
    (home / "counters/bad").mkdir()  # reading a folder fails as reading a refused counter does
    counters = HcaCounters(str(home))
    assert counters.changed(0.0) == {"port_rcv_data": 4}
    assert (counters.error, counters.usable) == ("bad: Is a directory", True)
    for look in range(2 * TURNS):
        counters.changed(1.0 + look)
    assert sum(path.endswith("bad") for path in reads) == 1
    for look in range(TURNS):
        counters.changed(PAUSE + 1.0 + look)
    assert sum(path.endswith("bad") for path in reads) == 2


def test_a_port_that_refuses_everything_is_asked_once(tmp_path: Path, reads: list[str]) -> None:
    home = write_port(tmp_path, "mlx5_0")
    for number in range(30):
        (home / f"counters/counter_{number}").mkdir(parents=True)
    counters = HcaCounters(str(home))
    for look in range(3 * TURNS):
        assert counters.changed(1.0 + look) == {}
    assert (len(reads), counters.usable) == (1, False)


def test_a_saturated_data_counter_is_no_figure(tmp_path: Path) -> None:
    home = write_port(tmp_path, "mlx4_0", counters={"port_xmit_data": (1 << 32) - 1, "symbol_error": 3})
    assert HcaCounters(str(home)).changed(0.0) == {"symbol_error": 3}
    assert not HcaCounters(str(write_port(tmp_path, "efa_0"))).usable
