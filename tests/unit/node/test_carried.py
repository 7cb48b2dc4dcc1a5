"""What the connections of a process have carried: of real ones on this machine, and of answers that are none."""

from __future__ import annotations

import os
import socket
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.node import carried as module
from collectors.node.carried import CarriedBytes, carried, counted, parts


def test_a_real_connection_is_counted_at_both_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
        found = carried(os.getpid())
        assert found is not None
        _, before = found
        traffic = CarriedBytes(os.getpid())
        near.sendall(b"x" * 100_000)
        left = 100_000
        while left:
            left -= len(far.recv(65536))
        deadline = time.monotonic() + 20
        while (now := (carried(os.getpid()) or (0.0, 0))[1]) < before + 200_000:  # acknowledged here, received there
            assert time.monotonic() < deadline, (before, now)
            time.sleep(0.02)
        time.sleep(0.06)
        total, rate = traffic.told()
        assert total is not None
        assert total >= before + 200_000
        assert rate is not None
        assert rate > 0
        near.close()
        far.close()


def test_one_list_serves_all_ranks_of_a_look_and_none_is_older_than_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    clock = [100.0]

    def of_family(family: int) -> list[tuple[int, int]]:
        asked.append(family)
        return [(7, int(clock[0] * 1000))] if family == socket.AF_INET else []

    monkeypatch.setattr(module, "_of_family", of_family)
    monkeypatch.setattr(module, "CONNECTIONS", module.ConnectionLists())
    monkeypatch.setattr(module, "held_sockets", lambda _proc, _pid: {7})
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])  # type: ignore[attr-defined]
    looks = [CarriedBytes(os.getpid()) for _ in range(8)]
    assert len(asked) == 2, "once for each family"
    clock[0] += 0.06
    told = [look.told() for look in looks]
    assert told == [(100060, 1000.0)] * 8
    assert len(asked) == 4
    late = CarriedBytes(os.getpid())
    clock[0] += 0.02
    assert late.told() == (100080, None), "too short a while for a rate"
    clock[0] += 0.08
    assert late.told() == (100160, 1000.0)


def test_a_process_that_is_gone_or_has_no_socket_tells_nothing() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert carried(child) is None


def message(kind: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 1, 0) + body + b"\0" * (-len(body) % 4)


def diagnosed(inode: int, sent: int, received: int, *, info: int = 136, before: bytes = b"") -> bytes:
    told = (b"\0" * 120 + struct.pack("=QQ", sent, received) + b"\0" * 100)[:info]
    return b"\0" * 68 + struct.pack("=I", inode) + before + struct.pack("=HH", 4 + len(told), 2) + told


def test_counts_are_read_behind_other_attributes() -> None:
    other = struct.pack("=HHI", 8, 8, 77)
    assert counted(diagnosed(9, 5, 7)) == (9, 12)
    assert counted(diagnosed(9, 5, 7, before=other)) == (9, 12)


def test_a_kernel_before_4_1_counts_nothing() -> None:
    assert counted(diagnosed(9, 5, 7, info=104)) is None


def test_messages_of_one_answer_are_told_apart() -> None:
    answer = message(20, diagnosed(9, 5, 7)) + message(20, b"short") + message(3, b"\0\0\0\0")
    found = list(parts(answer))
    assert [kind for kind, _ in found] == [20, 20, 3]
    assert [counted(body) for _, body in found] == [(9, 12), None, None]


@given(st.binary(max_size=400))
def test_no_answer_is_too_odd(answer: bytes) -> None:
    for _, body in parts(answer):
        counted(body)
    counted(answer)
