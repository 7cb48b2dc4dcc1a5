"""Ranks that each have a network of their own, as in containers without the host's: what their connections tell."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from collectors.node.processes.namespaces import foreign_namespace
from collectors.node.processes.sockets import CarriedBytes, ProcessTraffic
from tests.support.cluster import Cluster
from tests.support.cluster_node import Node

pytestmark = pytest.mark.nodes

SENDER = """\
import socket, time
server = socket.create_server(("", 29651))
print("ready", flush=True)
other = server.accept()[0]
while True:
    other.sendall(b"x")
    time.sleep(0.1)
"""
RECEIVER = """\
import socket, sys
other = socket.create_connection((sys.argv[1], 29651))
print("ready", flush=True)
while other.recv(100):
    pass
"""


def start(node: Node, program: str, *words: str) -> int:
    """Start a program on a node; its pid here. It ends with the node."""
    process = node.spawn([sys.executable, "-c", program, *words], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    (found,) = node.matching("29651")
    return found.host_pid


def until(pid: int, seen: Callable[[ProcessTraffic], bool]) -> ProcessTraffic:
    deadline = time.monotonic() + 60
    while not seen(found := CarriedBytes(pid).measured()):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return found


def test_connections_are_counted_and_a_silent_far_end_is_told() -> None:
    with Cluster(2) as cluster:
        one, two = cluster.nodes
        sender, receiver = start(one, SENDER), start(two, RECEIVER, one.address)
        found = until(sender, lambda told: bool(told.addresses))
        assert foreign_namespace(sender, "net")
        assert (found.addresses, found.unanswered) == ([one.address], [])
        assert until(receiver, lambda told: (told.carried or 0) > 10).addresses == [two.address]
        two.cut()
        silent = until(sender, lambda told: bool(told.unanswered))
        assert [end.rpartition(":")[0] for end in silent.unanswered] == [two.address]
