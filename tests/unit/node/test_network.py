"""Interfaces, TCP counters and the users of a port."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.node.network import source
from collectors.node.network.interfaces import (
    InterfaceQueries,
    describe,
    parse_dev,
    parse_if_inet6,
    parse_snmp_tcp,
)
from collectors.node.network.source import NetworkSource, Usage, usage_of
from collectors.node.processes.socket_tables import SocketOwners
from collectors.node.source import Shared
from collectors.samples.fabric import Interface, InterfaceCounters, PortUse, TcpCounters
from collectors.samples.ranks import RankProcess

DEV = b"""\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compres
    lo: 100 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0
eth0.5:7000 9 2 3 0 0 0 0 8000 9 4 5 0 0 0 0
"""

SNMP = b"""\
Ip: Forwarding
Ip: 1
Tcp: RtoAlgorithm InSegs OutSegs RetransSegs InErrs
Tcp: 1 5 21397 8 0
"""

HEAD = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def row(number: int, local: int, remote: int, state: str, inode: int = 0, address: str = "0100007F") -> bytes:
    return (
        f"{number:4d}: {address}:{local:04X} {address}:{remote:04X} {state} 00000000:00000000 00:00000000 00000000"
        f"     0        0 {inode} 1 0000000031b1ada3 100 0 0 10 0\n"
    ).encode()


def test_counters_of_every_interface() -> None:
    assert parse_dev(DEV) == [
        InterfaceCounters(
            "lo",
            100,
            100,
            0,
            0,
        ),
        InterfaceCounters(
            "eth0.5",
            7000,
            8000,
            3,
            5,
        ),
    ]


def test_addresses_of_the_sixth_kind() -> None:
    data = (
        b"fe800000000000000000000000000001 04 40 20 80     eth0\n"
        b"fd000000000000000000000000000002 04 40 00 82     eth0\n"
        b"zz 1 2\n"
    )
    assert parse_if_inet6(data) == {"eth0": ["fd00::2/64"]}


def test_the_kernel_knows_loopback() -> None:
    asker = InterfaceQueries()
    asked = asker.link("lo")
    assert asked is not None
    assert "127.0.0.1/8" in asker.addresses()["lo"]
    assert describe("lo", asked, ["127.0.0.1"], "/sys").kind == "loopback"
    assert asked.mtu > 1500
    assert asker.link("nothere0") is None


def test_a_server_its_clients_and_what_lingers() -> None:
    four = HEAD + row(0, 29500, 0, "0A", 77) + row(1, 29500, 40000, "01", 78) + row(2, 29500, 40001, "06")
    four += row(3, 40000, 29500, "01", 79) + row(4, 22, 29501, "01", 80) + row(5, 29501, 0, "01", 1)
    six = HEAD + row(0, 29500, 0, "0A", 81, "0" * 32)
    assert usage_of([29500, 29400], [four, six]) == {29500: Usage([77, 81], 1, 1), 29400: Usage([], 0, 0)}


def test_the_owner_of_a_listening_socket_is_found_and_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        usage = usage_of([port], [Path("/proc/net/tcp").read_bytes()])[port]
        owners = SocketOwners("/proc")
        assert owners.find(usage.listeners, likely=[]) == {usage.listeners[0]: os.getpid()}
        with monkeypatch.context() as nobody_is_asked:
            nobody_is_asked.setattr(os, "listdir", None)
            assert set(owners.find(usage.listeners, likely=[]).values()) == {os.getpid()}


def rank(pid: int, port: int) -> RankProcess:
    fields: dict[str, Any] = dict.fromkeys(RankProcess._fields)
    return RankProcess(**{**fields, "pid": pid, "parent": 1, "master_port": port})


class Fixture:
    """A NetworkSource over a folder that plays /proc, beside the real interfaces."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.proc = folder
        self.now = 100.0
        (folder / "net").mkdir()
        self.write("net/dev", DEV)
        self.write("net/snmp", SNMP)
        self.write("net/tcp", HEAD)
        monkeypatch.setattr(source, "time", self)
        self.shared = Shared()
        self.source = NetworkSource(self.shared, str(folder), str(folder))

    def monotonic(self) -> float:
        return self.now

    def write(self, name: str, data: bytes) -> None:
        path = self.proc / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def look(self, later: float = 0.0) -> list[Any]:
        self.now += later
        return list(self.source.look(0.0))


@pytest.fixture
def fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fixture:
    return Fixture(tmp_path, monkeypatch)


def uses(samples: list[Any]) -> list[PortUse]:
    return [sample for sample in samples if isinstance(sample, PortUse)]


def test_facts_now_and_then_counters_always(fixture: Fixture) -> None:
    first, second = fixture.look(), fixture.look(2)
    assert [sample.name for sample in first if isinstance(sample, Interface)] == ["lo"]
    assert not [sample for sample in second if isinstance(sample, Interface)]
    for samples in (first, second):
        assert (
            InterfaceCounters(
                "lo",
                100,
                100,
                0,
                0,
            )
            in samples
        )
        assert TcpCounters(21397, 8) in samples


def test_the_jobs_port_is_told_of_and_ordinary_ports_only_when_used(fixture: Fixture) -> None:
    assert uses(fixture.look()) == []
    fixture.write("net/tcp", HEAD + row(0, 29500, 40000, "06") + row(1, 4444, 0, "0A", 9))
    fixture.shared.ranks = (rank(7, 4444),)
    assert {use.port: use for use in uses(fixture.look(30))} == {
        4444: PortUse(4444, [], True, 0, 0),
        29500: PortUse(29500, [], False, 0, 1),
    }
    fixture.write("net/tcp", HEAD)
    fixture.shared.ranks = ()
    assert {use.port for use in uses(fixture.look(30))} == {4444, 29500}
    assert {use.port for use in uses(fixture.look(source.KEEP + 1))} == {29500}


def test_a_rank_in_a_network_namespace_of_its_own_has_its_own_tables(fixture: Fixture) -> None:
    for name, target in [("self/ns/net", "net:[1]"), ("7/ns/net", "net:[2]")]:
        path = fixture.proc / name
        path.parent.mkdir(parents=True)
        path.symlink_to(target)
    fixture.write("7/net/tcp", HEAD + row(0, 4444, 0, "0A", 9))
    fixture.shared.ranks = (rank(7, 4444),)
    assert uses(fixture.look()) == [PortUse(4444, [], True, 0, 0)]


PARSERS: list[Callable[[bytes], object]] = [
    parse_dev, parse_if_inet6, parse_snmp_tcp, lambda data: usage_of([29500], [data]),
]  # fmt: skip


@given(
    st.one_of(
        st.binary(max_size=300),
        st.builds(
            lambda seed, cut, more: seed[:cut] + more + seed[cut:],
            st.sampled_from([DEV, SNMP, HEAD + row(0, 29500, 0, "0A", 77)]),
            st.integers(0, 300),
            st.binary(max_size=20),
        ),
    )
)
def test_no_bytes_break_a_parser(data: bytes) -> None:
    for parse in PARSERS:
        json.dumps(parse(data), allow_nan=False)
