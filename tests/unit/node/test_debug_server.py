"""Finding torch's debug server among what a rank listens at."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from collectors.node.nccl import debug_server
from collectors.node.processes.netns import Address

LISTING = b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n["ping"]'


@contextmanager
def listener(*answers: bytes) -> Iterator[tuple[str, int]]:
    """A socket that gives these answers, one a connection, and none to those after them; its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held = []

        def serve() -> None:
            for said in answers:
                connection, _ = server.accept()
                held.append(connection)
                if said:
                    connection.recv(4096)
                    connection.sendall(said)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield "localhost", server.getsockname()[1]
        for connection in held:
            connection.close()


def find(monkeypatch: pytest.MonkeyPatch, *addresses: tuple[str, int]) -> debug_server.Server | None:
    monkeypatch.setattr(debug_server, "SECONDS", 0.3)
    monkeypatch.setattr(debug_server, "has_server", lambda _pid: True)
    monkeypatch.setattr(debug_server, "addresses", lambda _pid: list(addresses))
    return debug_server.find(os.getpid())


def test_one_that_was_too_slow_is_asked_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    with listener(b"", LISTING) as slow:
        found = find(monkeypatch, slow)
    assert found is not None
    assert found.handlers == ["ping"]


def test_who_never_answers_is_asked_again_only_where_no_other_does(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Address] = []
    handlers = debug_server.handlers

    def counted(pid: int, address: Address) -> list[str]:
        asked.append(address)
        return handlers(pid, address)

    monkeypatch.setattr(debug_server, "handlers", counted)
    with listener() as silent, listener(LISTING) as server:
        assert find(monkeypatch, silent, server) is not None
        assert asked == [silent, server]
        asked.clear()
        assert find(monkeypatch, silent) is None
        assert asked == [silent, silent]
