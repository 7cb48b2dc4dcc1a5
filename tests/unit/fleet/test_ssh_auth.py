"""Keys of files and of agents, and certificates."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.fleet.ssh.node import Ssh
from collectors.fleet.transport import Refused
from tests.support.ssh_server import Home, Host, Person, home, key, nodes, serve


@pytest.fixture
def user(tmp_path: Path) -> Home:
    return home(tmp_path)


async def says_hello(node: Ssh) -> bool:
    await node.connect()
    return (await node.run(["echo", "hello"])).stdout == b"hello\n"


async def test_wrong_key_is_refused_and_said(user: Home) -> None:
    async with serve() as host:
        user.knows(host)
        user.node("node0", host, f"IdentityFile {user.key('stranger')}")
        async with nodes(user, Person()) as (node,):
            with pytest.raises(Refused, match=r"tester@127\.0\.0\.1 port .*\(ssh-ed25519\)"):
                await node.connect()


async def test_an_encrypted_key_belongs_into_the_agent(user: Home) -> None:
    async with serve() as host:
        user.knows(host)
        user.node("node0", host, f"IdentityFile {user.key('user', passphrase='sesame')}")
        async with nodes(user, Person()) as (node,):
            with pytest.raises(Refused, match=r"no key, no agent.*uses keys in ssh-agent"):
                await node.connect()


async def test_user_certificate(user: Home) -> None:
    async with serve(Host(user_keys=(), user_authority="authority")) as host:
        user.knows(host)
        path = user.key("user")
        certificate = key("authority").generate_user_certificate(key("user"), "me", principals=["tester"])
        path.with_name("user-cert.pub").write_bytes(certificate.export_certificate())
        user.node("node0", host, f"IdentityFile {path}")
        async with nodes(user, Person()) as (node,):
            assert await says_hello(node)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Path]:
    if shutil.which("ssh-agent") is None:
        pytest.skip("needs ssh-agent")
    path = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    while not path.exists():
        assert process.poll() is None
    yield path
    process.kill()
    process.wait()


def add(path: Path, agent: Path) -> None:
    """Give a key to the agent and to it alone."""
    environment = {**os.environ, "SSH_AUTH_SOCK": str(agent)}
    subprocess.run(["ssh-add", "-q", str(path)], env=environment, check=True, capture_output=True)
    path.unlink()


async def test_agent(user: Home, agent: Path) -> None:
    for name in ("stranger", "user"):
        add(user.key(name), agent)
    (user.folder / "user.pub").write_bytes(key("user").export_public_key("openssh"))
    user.lines[-1] = f"IdentityAgent {agent}"
    async with serve() as host:
        user.knows(host)
        user.node("node0", host)
        user.node("node1", host, "IdentitiesOnly yes", f"IdentityFile {user.folder / 'user'}")
        user.node("node2", host, "IdentitiesOnly yes", f"IdentityFile {user.folder / 'none'}")
        async with nodes(user, Person(), "node0", "node1", "node2") as (first, second, third):
            assert await says_hello(first)
            assert await says_hello(second)
            with pytest.raises(Refused, match="no key, no agent"):
                await third.connect()
