"""Who we are: keys, agents, passphrases, passwords and other questions, each asked once and no more."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.fleet.ssh.node import Ssh
from collectors.fleet.transport import Declined, Refused
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
            with pytest.raises(Refused, match=r"tester@127\.0\.0\.1 port .* ssh-ed25519"):
                await node.connect()


@pytest.mark.parametrize("form", ["openssh", "pkcs8-pem"])
async def test_passphrase_is_asked_once_for_all_nodes(user: Home, form: str) -> None:
    async with serve() as host:
        user.knows(host)
        path = user.key("user", passphrase="sesame", form=form)
        path.with_name("user.pub").write_bytes(key("user").export_public_key("openssh"))
        for number in range(3):
            user.node(f"node{number}", host, f"IdentityFile {path}")
        person = Person("wrong", "sesame")
        async with nodes(user, person, "node0", "node1", "node2") as found:
            assert all(await asyncio.gather(*map(says_hello, found)))
        assert [question.kind for question in person.questions] == ["passphrase", "passphrase"]
        assert str(path) in person.questions[0].prompt


async def test_a_password_is_for_its_own_host_and_is_kept_for_the_next_connection(user: Home) -> None:
    right, other = (Host(user_keys=(), passwords=[password]) for password in ("right", "other"))
    async with serve(right) as one, serve(other) as two:
        user.knows(one)
        user.knows(two)
        user.node("node0", one, "IdentityFile none")
        user.node("node1", two, "IdentityFile none")
        person = Person("wrong", "right", "other")
        async with nodes(user, person, "node0", "node1") as found:
            assert await says_hello(found[0])
            await found[0].close()
            assert await says_hello(found[0])
            assert await says_hello(found[1])
        assert [question.kind for question in person.questions] == ["password"] * 3
        assert person.questions[0].secret
        assert "tester@127.0.0.1" in person.questions[0].prompt
        assert two.offered == ["other"]


async def test_a_declined_password_is_declined_for_all_until_asked_again(user: Home) -> None:
    async with serve(Host(user_keys=(), passwords=["right"])) as host:
        user.knows(host)
        for number in range(2):
            user.node(f"node{number}", host, "IdentityFile none")
        person = Person(None)
        async with nodes(user, person, "node0", "node1") as found:
            for node in found:
                with pytest.raises(Declined):
                    await node.connect()
            assert len(person.questions) == 1
            person.answers.append("right")
            found[0]._connector.ask_again()
            assert await says_hello(found[0])


async def test_keyboard_interactive_asks_what_the_server_asks(user: Home) -> None:
    prompts = [("\x1b[31mPassword: ", "right"), ("Code: ", "123456")]
    async with serve(Host(user_keys=(), prompts=prompts)) as host:
        user.knows(host)
        user.node("node0", host, "IdentityFile none")
        person = Person("right", "123456")
        async with nodes(user, person) as (node,):
            assert await says_hello(node)
        assert [(question.kind, question.prompt) for question in person.questions] == [
            ("keyboard", "Password:"), ("keyboard", "Code:")
        ]  # fmt: skip
        assert "Have your device at hand" in person.questions[0].detail


async def test_batch_asks_nobody(user: Home) -> None:
    async with serve(Host(user_keys=(), passwords=["right"])) as host:
        user.knows(host)
        user.node("node0", host, "IdentityFile none")
        person = Person("right")
        async with nodes(user, person, batch=True) as (node,):
            with pytest.raises(Refused):
                await node.connect()
        assert person.questions == []


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
            with pytest.raises(Refused, match="nothing"):
                await third.connect()
