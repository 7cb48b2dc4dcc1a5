"""Commands over an open connection: words arrive whole, ends are told, and none waits for another for ever."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh
import pytest

from collectors.fleet.ssh.node import Ssh
from collectors.fleet.transport import TransportError
from tests.support.ssh_server import Host, Person, home, nodes, serve


@asynccontextmanager
async def connected(folder: Path, host: Host) -> AsyncIterator[Ssh]:
    user = home(folder)
    async with serve(host):
        user.knows(host)
        user.node("node0", host, f"IdentityFile {user.key('user')}")
        async with nodes(user, Person()) as (node,):
            await node.connect()
            yield node


async def test_a_break_while_a_command_runs_is_no_end_of_it(tmp_path: Path) -> None:
    async def abort(process: asyncssh.SSHServerProcess[bytes]) -> None:
        process.channel.get_connection().abort()

    async with connected(tmp_path, Host(handler=abort)) as node:
        with pytest.raises(TransportError, match="the connection broke"):
            await node.run(["true"])


async def test_a_server_with_one_session_is_told_apart(tmp_path: Path) -> None:
    async with connected(tmp_path, Host(most_sessions=1)) as node:
        stream = await node.start(["cat"], on_stdout=print, on_stderr=print)
        with pytest.raises(TransportError, match="MaxSessions"):
            await node.run(["true"])
        stream.kill()
