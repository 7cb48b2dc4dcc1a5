"""Logins for which a Kerberos ticket or this machine's own key vouches: asked for by the ssh_config alone."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from collectors.fleet.ssh import vouching
from collectors.fleet.ssh.asking import Questions
from collectors.fleet.ssh.config import SshConfig
from collectors.fleet.ssh.connector import Connector
from collectors.fleet.ssh.node import Ssh
from collectors.fleet.transport import Refused
from tests.support.ssh_server import Home, Host, Person, home, key, public, serve

KEYSIGN = """#!{python}
import sys
import asyncssh
from asyncssh.packet import Byte, SSHPacket, String
if {complaint!r}:
    sys.exit({complaint!r})
packet = SSHPacket(SSHPacket(sys.stdin.buffer.read()).get_string())
assert packet.get_byte() == 2
packet.get_uint32()
signature = asyncssh.read_private_key({key!r}).sign(packet.get_string(), b"ssh-ed25519")
sys.stdout.buffer.write(String(Byte(2) + String(signature)))
"""


@pytest.fixture
def user(tmp_path: Path) -> Home:
    return home(tmp_path)


def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaint: str = "") -> None:
    """This machine's key, and a program that signs with it as OpenSSH's does."""
    folder = tmp_path / "etc"
    folder.mkdir()
    private = folder / "ssh_host_ed25519_key"
    private.write_bytes(key("machine").export_private_key())
    private.with_suffix(".pub").write_bytes(key("machine").export_public_key("openssh"))
    program = folder / "ssh-keysign"
    program.write_text(KEYSIGN.format(python=sys.executable, key=str(private), complaint=complaint))
    program.chmod(0o755)
    monkeypatch.setattr(vouching, "HOST_KEYS", folder)
    monkeypatch.setattr(vouching, "KEYSIGNS", (folder / "none", program))


async def hello(user: Home, node: str = "node0") -> bytes:
    """What a command prints there."""
    connector = Connector(SshConfig.load(user.config), Questions(Person()))
    ssh = Ssh(node, connector.settings(node, None, None), connector)
    try:
        await ssh.connect()
        return (await ssh.run(["echo", "hello"])).stdout
    finally:
        await ssh.close()
        await connector.close()


def trusting() -> Host:
    """A host that lets users of one machine in, by that machine's word alone."""
    return Host(user_keys=(), client_hosts=f"* {public('machine')}\n")


async def test_the_machines_key_vouches_for_its_user(
    user: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(tmp_path, monkeypatch)
    async with serve(trusting()) as host:
        user.knows(host)
        user.node("node0", host, "IdentityFile none", "HostbasedAuthentication yes")
        user.node("node1", host, "IdentityFile none")
        assert await hello(user) == b"hello\n"
        with pytest.raises(Refused, match="nothing: no key, no agent"):
            await hello(user, "node1")


@pytest.mark.parametrize("forbidden", [True, False])
async def test_a_key_still_gets_in_where_the_machines_cannot_be_used(
    forbidden: bool, user: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if forbidden:
        machine(tmp_path, monkeypatch, complaint="ssh-keysign not enabled in /etc/ssh/ssh_config")
    else:
        monkeypatch.setattr(vouching, "KEYSIGNS", ())
    mine = trusting()
    mine.user_keys = ("user",)
    async with serve(mine) as host:
        user.knows(host)
        user.node("node0", host, f"IdentityFile {user.key('user')}", "HostbasedAuthentication yes")
        assert await hello(user) == b"hello\n"
        mine.user_keys = ()
        offered = "this machine's key, key ssh-ed25519" if forbidden else "key ssh-ed25519; not this machine's key: no"
        with pytest.raises(Refused, match=offered):
            await hello(user)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["GSSAPIAuthentication yes"], "; not Kerberos: the Python package gssapi is not installed here"),
        (["GSSAPIAuthentication no"], "no agent);"),
        ([], "no agent);"),
    ],
)
async def test_what_kerberos_lacks_is_said_where_it_is_wanted(
    lines: Sequence[str], said: str, user: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5CCNAME", "MEMORY:none")
    monkeypatch.setattr(vouching, "find_spec", lambda _name: None)
    async with serve(Host(user_keys=())) as host:
        user.knows(host)
        user.node("node0", host, "IdentityFile none", *lines)
        with pytest.raises(Refused) as refused:
            await hello(user)
    assert said in str(refused.value)


async def test_a_package_that_nobody_needs_is_not_missed(
    user: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KRB5CCNAME", raising=False)
    monkeypatch.setattr(vouching, "CACHE", str(tmp_path / "krb5cc_{}"))
    monkeypatch.setattr(vouching, "find_spec", lambda _name: None)
    async with serve(Host(user_keys=())) as host:
        user.knows(host)
        user.node("node0", host, "IdentityFile none", "GSSAPIAuthentication yes")
        with pytest.raises(Refused, match=r"no agent\);"):
            await hello(user)
