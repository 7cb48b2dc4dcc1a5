"""TCP sockets as the kernel tells of them over netlink: real ones on this machine, and answers that are none."""

from __future__ import annotations

import os
import socket
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.node.netlink import attributes, messages
from collectors.node.processes.sockets import (
    ESTABLISHED,
    LISTEN,
    CarriedBytes,
    TcpSocket,
    held_sockets,
    tcp_socket,
    tcp_sockets,
)


def test_real_sockets_by_state_and_port_and_what_a_connection_carries() -> None:
    me = os.getpid()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near:
        port, (far, _) = server.getsockname()[1], server.accept()
        assert [one.state for one in tcp_sockets(me, port=port)] == [LISTEN, ESTABLISHED]
        (listening,) = tcp_sockets(me, 1 << LISTEN, port=port)
        assert (listening.local, listening.uid) == (f"127.0.0.1:{port}", os.getuid())
        (dialled,) = (one for one in tcp_sockets(me, 1 << ESTABLISHED) if one.remote == listening.local)
        assert {listening.inode, dialled.inode} <= held_sockets(me)

        traffic = CarriedBytes(me)
        before = traffic.measured().carried or 0
        near.sendall(b"x" * 100_000)
        left = 100_000
        while left:
            left -= len(far.recv(65536))
        deadline = time.monotonic() + 20
        told = traffic.measured()
        while (told.carried or 0) < before + 200_000 or told.carrying is None:  # acknowledged here, received there
            assert time.monotonic() < deadline
            time.sleep(0.06)
            told = traffic.measured()
        assert (told.carrying or 0.0) > 0
        assert told[2:] == ([], []), "it is in our own network"
        far.close()


def diagnosed(
    family: socket.AddressFamily, near: str, far: str, *, timer: int = 0, again: int = 0, info: bytes = b""
) -> TcpSocket:
    """The socket of a message of the kernel's."""
    ends = b"".join(socket.inet_pton(family, end).ljust(16, b"\0") for end in (near, far))
    head = struct.pack("=BBBB", family, ESTABLISHED, timer, again) + struct.pack(">HH", 40001, 443) + ends
    body = head + b"\0" * 24 + struct.pack("=II", 1000, 9) + struct.pack("=HH", 4 + len(info), 2) + info
    found = tcp_socket(body)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("family", "near", "far", "local", "remote", "leaves"),
    [
        (socket.AF_INET, "10.0.0.1", "10.0.0.7", "10.0.0.1:40001", "10.0.0.7:443", True),
        (socket.AF_INET, "127.0.0.1", "127.0.0.2", "127.0.0.1:40001", "127.0.0.2:443", False),
        (socket.AF_INET6, "2001:db8::1", "2001:db8::7", "[2001:db8::1]:40001", "[2001:db8::7]:443", True),
        (socket.AF_INET6, "::1", "::1", "[::1]:40001", "[::1]:443", False),
        (socket.AF_INET6, "::ffff:10.0.0.1", "::ffff:127.0.0.1", "10.0.0.1:40001", "127.0.0.1:443", False),
    ],
)
def test_both_ends_of_a_connection(
    family: socket.AddressFamily, near: str, far: str, local: str, remote: str, leaves: bool
) -> None:
    found = diagnosed(family, near, far)
    assert (found.inode, found.uid, found.port, found.local, found.remote) == (9, 1000, 40001, local, remote)
    assert found.leaves is leaves


@pytest.mark.parametrize(("timer", "again", "times"), [(1, 4, 4), (4, 9, 0)], ids=["again", "asks for a window"])
def test_how_often_the_same_was_sent_again(timer: int, again: int, times: int) -> None:
    assert diagnosed(socket.AF_INET, "10.0.0.1", "10.0.0.7", timer=timer, again=again).unacknowledged == times


@pytest.mark.parametrize(("size", "told"), [(236, (5, 7)), (120, (0, 0)), (0, (0, 0))])
def test_what_a_connection_has_carried(size: int, told: tuple[int, int]) -> None:
    info = b"\0" * 120 + struct.pack("=QQ", 5, 7) + b"\0" * 100
    found = diagnosed(socket.AF_INET, "10.0.0.1", "10.0.0.7", info=info[:size])
    assert (found.acknowledged, found.received) == told


@given(st.binary(max_size=400))
def test_no_answer_is_too_odd(answer: bytes) -> None:
    bodies = [body for _, body in messages(answer)]
    assert sum(map(len, bodies)) <= len(answer)
    for body in (*bodies, answer):
        assert sum(map(len, attributes(body, 4).values())) <= len(body)
        found = tcp_socket(body)
        assert found is None or found.port in range(1 << 16)
