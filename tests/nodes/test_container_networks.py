"""Ranks that each have a network of their own, as in containers without the host's: what their connections tell."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest

from collectors.node.processes.namespaces import foreign_network
from collectors.node.processes.sockets import CarriedBytes, ProcessTraffic

pytestmark = pytest.mark.nodes

ADDRESSES = ("10.177.0.1", "10.177.0.2")
SENDER = """\
import socket, sys, time
with socket.create_server(("10.177.0.1", 29651)) as server:
    other = server.accept()[0]
while True:
    other.sendall(b"x")
    time.sleep(0.1)
"""
RECEIVER = """\
import socket, time
while True:
    try:
        other = socket.create_connection(("10.177.0.1", 29651))
        break
    except OSError:
        time.sleep(0.1)
while other.recv(100):
    pass
"""


def _in(pid: int, *words: str) -> list[str]:
    return ["nsenter", "-t", str(pid), "-n", *words]


@pytest.fixture
def networks() -> Iterator[tuple[int, int]]:
    """Processes that hold two networks which are joined by one cable."""
    with ExitStack() as stack:
        holders = []
        for _ in ADDRESSES:
            words = ["unshare", "-n", "sh", "-c", "echo ready; exec sleep 600"]
            holder = stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
            stack.callback(holder.kill)
            assert holder.stdout is not None
            assert holder.stdout.readline() == "ready\n"
            holders.append(holder.pid)
        first, second = holders
        subprocess.run(_in(first, *"ip link add eth0 type veth peer name eth0 netns".split(), str(second)), check=True)
        for pid, address in zip(holders, ADDRESSES, strict=True):
            subprocess.run(_in(pid, "ip", "addr", "add", f"{address}/24", "dev", "eth0"), check=True)
            for name in ("lo", "eth0"):
                subprocess.run(_in(pid, "ip", "link", "set", name, "up"), check=True)
        yield first, second


@pytest.fixture
def run() -> Iterator[Callable[..., int]]:
    """Starts a program in the network of a process and gives its pid; all are ended."""
    with ExitStack() as stack:

        def start(holder: int, words: Sequence[str], **env: str) -> int:
            started = subprocess.Popen(_in(holder, *words), env={**os.environ, **env})
            stack.callback(started.wait)
            stack.callback(started.kill)
            return started.pid

        yield start


def _until(pid: int, seen: Callable[[ProcessTraffic], bool]) -> ProcessTraffic:
    deadline = time.monotonic() + 60
    while True:
        found = CarriedBytes(pid).told()
        if seen(found):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def test_connections_are_counted_and_a_silent_far_end_is_told(
    networks: tuple[int, int], run: Callable[..., int]
) -> None:
    sender, receiver = (
        run(holder, [sys.executable, "-c", program])
        for holder, program in zip(networks, (SENDER, RECEIVER), strict=True)
    )
    found = _until(sender, lambda one: bool(one.addresses))
    assert foreign_network(sender)
    assert (found.addresses, found.unanswered) == ([ADDRESSES[0]], [])
    there = _until(receiver, lambda one: (one.carried or 0) > 10)
    assert there.addresses == [ADDRESSES[1]]
    subprocess.run(_in(networks[1], "ip", "link", "set", "eth0", "down"), check=True)
    silent = _until(sender, lambda one: bool(one.unanswered))
    assert [end.rpartition(":")[0] for end in silent.unanswered] == [ADDRESSES[1]]
