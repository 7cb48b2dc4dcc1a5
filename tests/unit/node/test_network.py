"""Interfaces, TCP counters and who holds a port, as this machine has them."""

from __future__ import annotations

import os
import socket

import pytest

from collectors.node.machine.preflight import listen
from collectors.node.network.interfaces import counters, interface_of, interfaces
from collectors.node.network.source import NetworkSource, parse_snmp_tcp
from collectors.node.source import Shared
from collectors.samples.host import Interface

SNMP = b"""\
Ip: Forwarding
Ip: 1
Tcp: RtoAlgorithm InSegs OutSegs RetransSegs InErrs
Tcp: 1 5 21397 8 0
"""


@pytest.mark.parametrize(
    ("said", "counters"),
    [
        (SNMP, {"OutSegs": 21397, "RetransSegs": 8}),
        (b"", {}),
        (SNMP.replace(b"RetransSegs ", b""), {"OutSegs": 21397}),
        (SNMP.replace(b" 8 ", b" x "), {"OutSegs": 21397}),
    ],
)
def test_segments_sent_and_sent_again(said: bytes, counters: dict[str, int]) -> None:
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
        "eth0": {"received": 100, "receive_drops": 3, "sent": 200, "send_drops": 5}
    }


def test_interfaces_are_told_now_and_then_and_their_counters_every_time() -> None:
    source = NetworkSource(Shared())
    first, second = ({getattr(sample, "source", "") for sample in source.read(0.0)} for _ in range(2))
    assert (first, second) == ({"", "interface", "tcp"}, {"interface", "tcp"}), "interfaces have no source"


def test_who_holds_a_port_is_told_where_it_is_wanted() -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        (told,) = listen([port])
    assert (told.subject, told.error) == (str(port), "Address already in use (EADDRINUSE)")
    assert isinstance(told.value, list)
    assert [str(holder).split()[0] for holder in told.value] == [str(os.getpid())]
