"""Interfaces, TCP counters and the users of a port, as this machine has them."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest

from collectors.node.network import source
from collectors.node.network.interfaces import counters, interface_of, interfaces
from collectors.node.network.source import NetworkSource, parse_snmp_tcp
from collectors.node.source import Shared
from collectors.samples.fabric import Interface, InterfaceCounters, PortUse
from collectors.samples.ranks import RankProcess

SNMP = b"""\
Ip: Forwarding
Ip: 1
Tcp: RtoAlgorithm InSegs OutSegs RetransSegs InErrs
Tcp: 1 5 21397 8 0
"""


@pytest.mark.parametrize(
    ("said", "counters"),
    [(SNMP, (21397, 8)), (b"", None), (SNMP.replace(b"RetransSegs ", b""), None), (SNMP.replace(b" 8 ", b" x "), None)],
)
def test_segments_sent_and_sent_again(said: bytes, counters: tuple[int, int] | None) -> None:
    assert parse_snmp_tcp(said) == counters


def test_the_kernel_knows_the_loopback_interface() -> None:
    (own,) = [one for one in interfaces("/sys") if one.name == "lo"]
    assert own == Interface("lo", own.mtu, None, True, own.addresses, "loopback")
    assert "127.0.0.1/8" in own.addresses
    assert interface_of("127.0.0.1") == ("lo", own.mtu)
    assert interface_of("192.0.2.77") == ("", None)


def test_traffic_and_losses_of_interfaces() -> None:
    head = b"Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes\n"
    assert counters(head + b"  eth0: 100 2 0 3 0 0 0 0 200 4 0 5 0 0 0 0\n  bad: 1 2\n") == {
        "eth0": InterfaceCounters("eth0", 100, 200, 3, 5)
    }


def rank(port: int) -> RankProcess:
    fields: dict[str, Any] = dict.fromkeys(RankProcess._fields)
    return RankProcess(**{**fields, "pid": os.getpid(), "parent": 1, "master_port": port})


class Looks:
    """The source, and a clock that each look moves on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(source, "time", self)
        self.shared = Shared()
        self._source = NetworkSource(self.shared)

    def monotonic(self) -> float:
        return self.now

    def look(self, later: float = 30.0) -> list[Any]:
        self.now += later
        return list(self._source.look(0.0))

    def uses(self, port: int) -> list[PortUse]:
        return [sample for sample in self.look() if isinstance(sample, PortUse) and sample.port == port]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


def test_the_jobs_port_is_told_of_with_its_users_once_it_was_in_use(looks: Looks) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert looks.uses(port) == []
        looks.shared.ranks = (rank(port),)
        (used,) = looks.uses(port)
        assert used.listening
        assert [user.split()[0] for user in used.listeners] == [str(os.getpid())]
    looks.shared.ranks = ()
    assert looks.uses(port) == [PortUse(port, [], False)], "a restart may stumble over it"
