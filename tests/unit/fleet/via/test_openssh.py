"""``--via ssh``: the system's own client, which reads its own configuration and asks nobody."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from collectors.fleet.targets.chosen import parse
from collectors.fleet.transport import TransportError
from collectors.fleet.via.piped import Piped
from collectors.fleet.via.way import way_of
from tests.support.ssh_server import Home, home, serve

pytestmark = pytest.mark.skipif(shutil.which("ssh") is None, reason="needs OpenSSH's client")


@pytest.fixture
def user(tmp_path: Path) -> Home:
    made = home(tmp_path)
    made.lines += [f"IdentityFile {made.key('user')}", "IdentitiesOnly yes"]
    return made


def node(user: Home, word: str = "node0") -> Piped:
    (target,) = parse([word])
    way = way_of("ssh", user.config)
    assert way is not None
    return Piped(target, way, asyncio.Semaphore(way.at_once))


async def test_all_commands_of_a_node_share_one_connection(user: Home) -> None:
    async with serve() as host:
        user.knows(host)
        user.node("node0", host)
        made = node(user)
        await made.connect()
        stream = await made.start(["cat"], on_stdout=print, on_stderr=print)
        done = await asyncio.gather(*(made.run(["echo", str(number)]) for number in range(3)))
        assert [one.stdout for one in done] == [b"0\n", b"1\n", b"2\n"]
        assert host.made == 1
        stream.kill()
        await made.close()


def revoke_known_keys(user: Home) -> None:
    """Make a binary list of all keys in known_hosts."""
    listed = user.folder / "listed.pub"
    listed.write_text(user.known_hosts.read_text().split(" ", 1)[1])
    subprocess.run(["ssh-keygen", "-q", "-k", "-f", user.folder / "krl", listed], check=True)


async def test_keys_that_are_revoked_by_a_binary_list_are_refused(user: Home) -> None:
    async with serve() as host:
        user.knows(host)
        await asyncio.to_thread(revoke_known_keys, user)
        user.node("node0", host, f"RevokedHostKeys {user.folder / 'krl'}")
        made = node(user)
        await made.connect()
        with pytest.raises(TransportError, match=r"Host key verification failed\.: ssh to it once by hand"):
            await made.run(["true"])
        await made.close()
