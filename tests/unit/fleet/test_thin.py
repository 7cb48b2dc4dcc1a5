"""A thin connection is one: nothing to be ignored is sent, keepalives go to the silent alone, and keys are changed."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from asyncssh.constants import MSG_IGNORE, MSG_KEXINIT

from collectors.fleet.ssh import thin
from collectors.fleet.ssh.asking import Questions
from collectors.fleet.ssh.config import SshConfig
from collectors.fleet.ssh.connector import Connector
from collectors.fleet.ssh.node import Ssh
from collectors.fleet.ssh.thin import KEEPALIVE, KEEPALIVES, TALKATIVE, ThinConnection, patience, talkative
from tests.support.ssh_server import Host, Person, home, serve


@asynccontextmanager
async def connected(folder: Path, host: Host, *lines: str) -> AsyncIterator[tuple[Ssh, ThinConnection]]:
    user = home(folder)
    async with serve(host):
        user.knows(host)
        user.node("node0", host, f"IdentityFile {user.key('user')}", *lines)
        connector = Connector(SshConfig.load(user.config), Questions(Person()))
        node = Ssh("node0", connector.settings("node0", None, None), connector)
        await node.connect()
        connection = node._connection
        assert isinstance(connection, ThinConnection)
        try:
            yield node, connection
        finally:
            await node.close()
            await connector.close()


@pytest.fixture
def came(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Kinds of the packets that servers receive."""
    kinds: list[int] = []

    def note(_self: object, kind: int, *_rest: object) -> None:
        kinds.append(kind)

    monkeypatch.setattr(asyncssh.SSHServerConnection, "log_received_packet", note)
    return kinds


def watched(connection: ThinConnection) -> bool:
    """Whether its silence would be noticed."""
    return connection._keepalive_timer is not None


async def test_no_words_are_put_together_for_what_a_channel_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[type, str]] = []
    kept = asyncssh.packet.SSHPacketLogger._log_packet

    def note(logger: asyncssh.packet.SSHPacketLogger, word: str, *rest: Any) -> None:
        told.append((type(logger), word))
        kept(logger, word, *rest)

    monkeypatch.setattr(asyncssh.packet.SSHPacketLogger, "_log_packet", note)
    async with connected(tmp_path, Host()) as (node, _):
        assert (await node.run(["head", "-c", "5000", "/dev/zero"])).stdout == bytes(5000)
    assert (thin.ThinChannel, "Sent") in told
    assert (thin.ThinChannel, "Received") not in told


@pytest.mark.parametrize(("cipher", "ignored"), [("aes128-gcm@openssh.com", False), ("aes128-cbc", True)])
async def test_packets_to_be_ignored_are_sent_only_where_they_help(
    tmp_path: Path, came: list[int], monkeypatch: pytest.MonkeyPatch, cipher: str, ignored: bool
) -> None:
    every = asyncssh.encryption.get_encryption_algs()
    monkeypatch.setattr("asyncssh.connection.get_default_encryption_algs", lambda: every)
    async with connected(tmp_path, Host(), f"Ciphers {cipher}") as (node, connection):
        assert connection.get_extra_info("send_cipher") == cipher
        await node.run(["true"])
    assert (MSG_IGNORE in came) == ignored


async def test_keys_are_changed_though_the_first_exchange_is_forgotten(tmp_path: Path, came: list[int]) -> None:
    host = Host()
    async with connected(tmp_path, host) as (node, connection):
        assert connection._client_kexinit == connection._server_kexinit == b""
        host.connections[0]._rekey_bytes = 1000
        for _ in range(5):
            assert (await node.run(["head", "-c", "5000", "/dev/zero"])).stdout == bytes(5000)
    assert came.count(MSG_KEXINIT) > 2


async def test_names_of_algorithms_are_those_of_the_connection_before(tmp_path: Path) -> None:
    host = Host()
    (tmp_path / "other").mkdir()
    async with connected(tmp_path, Host()) as (_, first), connected(tmp_path / "other", host) as (node, second):
        for name in ("_server_host_key_algs", "_enc_algs", "_server_sig_algs"):
            assert getattr(first, name), name
            assert getattr(first, name) is getattr(second, name), name
        host.connections[-1]._rekey_bytes = 1000
        assert (await node.run(["head", "-c", "5000", "/dev/zero"])).stdout == bytes(5000)


async def test_only_the_silent_get_keepalives_and_a_dead_link_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thin, "_QUIET_KEEPALIVE", 0.02)
    host = Host()
    async with connected(tmp_path, host) as (node, connection):
        await node.run(["true"])
        now = time.monotonic()
        connection.look(now)
        assert not watched(connection)
        connection.look(now + TALKATIVE + 0.1)
        assert watched(connection)
        await asyncio.sleep(0.2)
        assert (await node.run(["true"])).status == 0, "a server that answers is alive"
        server = host.connections[0]._transport
        assert server is not None
        server.pause_reading()
        await asyncio.wait_for(connection.wait_closed(), 60)
        assert "no answer" in node.why


async def test_a_node_that_was_asked_to_send_seldom_gets_no_keepalives_in_between(
    tmp_path: Path,
) -> None:
    async with connected(tmp_path, Host()) as (node, connection):
        await node.run(["true"])
        now = time.monotonic()
        for silent in (0.0, 4.1, 8.2):
            connection.look(now + silent, 8.0)
            assert not watched(connection)
        connection.look(now + talkative(8.0) + 0.1, 8.0)
        assert watched(connection)
    assert talkative(1.0) == TALKATIVE
    assert patience(1.0) == KEEPALIVE * (KEEPALIVES + 1)
    assert patience(8.0) < 3 * 8.0, "the link is known to be cut before its samples count as missing"


def test_what_is_overridden_is_there_to_be_overridden() -> None:
    """A connection of asyncssh's is made a ThinConnection when it exists: no option of asyncssh chooses its class.

    Where a version of it has none of these, nothing says so: certificates would be refused and keepalives be sent.
    """
    for name, parameters in {
        "validate_server_host_key": ["self", "key_data"],
        "send_packet": ["self", "pkttype", "args", "handler"],
        "data_received": ["self", "data", "datatype"],
        "set_keepalive": ["self", "interval", "count_max"],
        "get_owner": ["self"],
        "get_extra_info": ["self", "name", "default"],
    }.items():
        found = getattr(asyncssh.SSHClientConnection, name, None)
        assert found is not None, name
        assert list(inspect.signature(found).parameters) == parameters, name
    assert "__slots__" not in vars(asyncssh.SSHClientConnection), "its class could not be changed"
