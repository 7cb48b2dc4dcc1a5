"""What the connections of a process have carried: of real ones on this machine, and of answers that are none."""

from __future__ import annotations

import os
import socket
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.node.network import tcp_info as module
from collectors.node.network.tcp_info import CarriedBytes, Connection, carried, counted, parts


def test_a_real_connection_is_counted_at_both_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
        before = carried(os.getpid())[1].carried
        assert before is not None
        traffic = CarriedBytes(os.getpid())
        near.sendall(b"x" * 100_000)
        left = 100_000
        while left:
            left -= len(far.recv(65536))
        deadline = time.monotonic() + 20
        while (now := carried(os.getpid())[1].carried or 0) < before + 200_000:  # acknowledged here, received there
            assert time.monotonic() < deadline, (before, now)
            time.sleep(0.02)
        time.sleep(0.06)
        total, rate, ports, unanswered, queued, addresses = traffic.told()
        assert total is not None
        assert total >= before + 200_000
        assert rate is not None
        assert rate > 0
        assert (unanswered, queued, addresses) == ([], [], []), "it is in our own network"
        assert near.getsockname()[1] not in ports, "the loopback leads to no other machine"
        near.close()
        far.close()


def test_one_list_serves_all_ranks_of_a_look_and_none_is_older_than_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    clock = [100.0]

    def of_family(family: int, _pid: int, _proc: str) -> list[Connection]:
        asked.append(family)
        return [Connection(7, int(clock[0] * 1000), 40001)] if family == socket.AF_INET else []

    monkeypatch.setattr(module, "_of_family", of_family)
    monkeypatch.setattr(module, "CONNECTIONS", module.ConnectionLists())
    monkeypatch.setattr(module, "held_sockets", lambda _proc, _pid: {7})
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])  # type: ignore[attr-defined]
    looks = [CarriedBytes(os.getpid()) for _ in range(8)]
    assert len(asked) == 2, "once for each family"
    clock[0] += 0.06
    told = [look.told() for look in looks]
    assert told == [(100060, 1000.0, [40001], [], [], [])] * 8
    assert len(asked) == 4
    late = CarriedBytes(os.getpid())
    clock[0] += 0.02
    assert late.told() == (100080, None, [40001], [], [], []), "too short a while for a rate"
    clock[0] += 0.08
    assert late.told() == (100160, 1000.0, [40001], [], [], [])


def message(kind: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 1, 0) + body + b"\0" * (-len(body) % 4)


def diagnosed(inode: int, sent: int, received: int, *, info: int = 136, before: bytes = b"") -> bytes:
    told = (b"\0" * 120 + struct.pack("=QQ", sent, received) + b"\0" * 100)[:info]
    return b"\0" * 68 + struct.pack("=I", inode) + before + struct.pack("=HH", 4 + len(told), 2) + told


@pytest.mark.parametrize(
    ("family", "far", "port", "near"),
    [
        (socket.AF_INET, "10.0.0.7", 40001, "10.0.0.1"), (socket.AF_INET, "127.0.0.2", None, "127.0.0.1"),
        (socket.AF_INET6, "2001:db8::7", 40001, "2001:db8::1"), (socket.AF_INET6, "::1", None, "::1"),
        (socket.AF_INET6, "::ffff:127.0.0.1", None, "::ffff:127.0.0.1"),
        (socket.AF_INET6, "::ffff:10.0.0.7", 40001, "10.0.0.1"),
    ],
)  # fmt: skip
def test_port_and_address_are_told_of_connections_that_leave_the_machine(
    family: socket.AddressFamily, far: str, port: int | None, near: str
) -> None:
    mapped = "::ffff:" if family == socket.AF_INET6 and near == "10.0.0.1" else ""
    ends = [socket.inet_pton(family, end).ljust(16, b"\0") for end in (mapped + near, far)]
    head = struct.pack("=BBBB", family, 1, 0, 0) + struct.pack(">HH", 40001, 443) + b"".join(ends)
    found = counted(head + diagnosed(9, 5, 7)[len(head) :])
    assert found == (9, 12, port, "", None, near if port else "")


@pytest.mark.parametrize(
    ("family", "far", "timer", "again", "told"),
    [
        (socket.AF_INET, "10.0.0.7", 1, 4, "10.0.0.7:443"), (socket.AF_INET, "10.0.0.7", 1, 3, ""),
        (socket.AF_INET, "10.0.0.7", 4, 9, ""),  # it asks for a window: the far end is there, and takes nothing
        (socket.AF_INET6, "2001:db8::7", 1, 12, "[2001:db8::7]:443"),
        (socket.AF_INET6, "::ffff:10.0.0.7", 1, 12, "10.0.0.7:443"),
    ],
)  # fmt: skip
def test_the_far_end_is_told_that_acknowledges_nothing(
    family: socket.AddressFamily, far: str, timer: int, again: int, told: str
) -> None:
    address = socket.inet_pton(family, far).ljust(16, b"\0")
    head = struct.pack("=BBBB", family, 1, timer, again) + struct.pack(">HH", 40001, 443) + b"\0" * 16 + address
    found = counted(head + diagnosed(9, 5, 7)[len(head) :])
    assert found is not None
    assert found.unanswered == told


def queueing(far: str, *, unsent: int, times: tuple[int, int, int], info: int = 236) -> bytes:
    """A connection of 5 acknowledged bytes."""
    address = socket.inet_pton(socket.AF_INET, far).ljust(16, b"\0")
    head = struct.pack("=BBBB", socket.AF_INET, 1, 0, 0) + struct.pack(">HH", 40001, 443) + b"\0" * 16 + address
    told = b"\0" * 120 + struct.pack("=QQ", 5, 7) + b"\0" * 8 + struct.pack("=I", unsent) + b"\0" * 20
    told += struct.pack("=QQQ", *times) + b"\0" * 44
    rest = b"\0" * (68 - len(head)) + struct.pack("=I", 9)
    return head + rest + struct.pack("=HH", 4 + info, 2) + told[:info]


def test_what_waits_to_be_sent_is_told_with_how_long_only_the_path_held_it_up() -> None:
    found = counted(queueing("10.0.0.7", unsent=70_000, times=(9_000_000, 2_000_000, 500_000)))
    assert found is not None
    assert found.queued == (40001, "10.0.0.7:443", 5, 6.5, 70_000)


@pytest.mark.parametrize(
    ("far", "unsent", "info"), [("10.0.0.7", 0, 236), ("127.0.0.1", 70_000, 236), ("10.0.0.7", 70_000, 188)]
)
def test_nothing_waits_on_an_empty_queue_on_the_loopback_and_as_far_as_an_old_kernel_tells(
    far: str, unsent: int, info: int
) -> None:
    found = counted(queueing(far, unsent=unsent, times=(9, 0, 0), info=info))
    assert found is not None
    assert found.queued is None


def test_messages_of_one_answer_are_told_apart() -> None:
    answer = message(20, diagnosed(9, 5, 7)) + message(20, b"short") + message(3, b"\0\0\0\0")
    found = list(parts(answer))
    assert [kind for kind, _ in found] == [20, 20, 3]
    assert [counted(body) for _, body in found] == [(9, 12, 0, "", None, "::"), None, None]


@given(st.binary(max_size=400))
def test_no_answer_is_too_odd(answer: bytes) -> None:
    bodies = [body for _, body in parts(answer)]
    assert sum(map(len, bodies)) <= len(answer)
    for body in (*bodies, answer):
        found = counted(body)
        assert found is None or (found.inode >= 0 and found.port in {None, *range(1 << 16)})
