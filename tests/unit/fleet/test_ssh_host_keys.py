"""Whether the host is the right one: as OpenSSH decides it, and no key is trusted silently."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from collectors.fleet.ssh.asking import Questions
from collectors.fleet.ssh.config import SshConfig
from collectors.fleet.ssh.connector import Connector
from collectors.fleet.ssh.node import Ssh
from collectors.fleet.transport import Declined, Refused
from tests.support.ssh_server import Home, Host, Person, home, key, public, serve


@pytest.fixture
def user(tmp_path: Path) -> Home:
    made = home(tmp_path)
    made.lines.append(f"IdentityFile {made.key('user')}")
    return made


@asynccontextmanager
async def node(user: Home, person: Person, *, batch: bool = False) -> AsyncIterator[Ssh]:
    connector = Connector(SshConfig.load(user.config), Questions(person), batch=batch)
    made = Ssh("node0", connector.settings("node0", None, None), connector)
    try:
        yield made
    finally:
        await made.close()
        await connector.close()


async def test_unknown_key_is_asked_about_and_remembered_when_the_answer_is_yes(user: Home) -> None:
    async with serve() as host:
        user.node("node0", host)
        person = Person("yes")
        for _ in range(2):
            async with node(user, person) as made:
                await made.connect()
        (question,) = person.questions
        assert question.kind == "host_key"
        assert not question.secret
        assert key("host").get_fingerprint() in question.detail
        assert user.known_hosts.read_text() == f"[127.0.0.1]:{host.port} {public('host')}\n"


async def test_once_is_for_this_run_alone(user: Home) -> None:
    async with serve() as host:
        user.node("node0", host)
        person = Person("once")
        async with node(user, person) as made:
            await made.connect()
            await made.close()
            await made.connect()
        assert len(person.questions) == 1
        assert not user.known_hosts.exists()
        async with node(user, Person()) as made:
            with pytest.raises(Declined, match="was not accepted"):
                await made.connect()


@pytest.mark.parametrize(
    ("line", "batch"), [("StrictHostKeyChecking yes", False), ("BatchMode yes", False), ("", True)]
)
async def test_unknown_key_where_nobody_may_be_asked(user: Home, line: str, batch: bool) -> None:
    async with serve() as host:
        user.node("node0", host, line)
        person = Person("yes")
        async with node(user, person, batch=batch) as made:
            with pytest.raises(Refused, match="is in no known_hosts file"):
                await made.connect()
        assert person.questions == []


@pytest.mark.parametrize("word", ["accept-new", "no"])
async def test_unknown_key_that_the_configuration_accepts(user: Home, word: str) -> None:
    async with serve() as host:
        user.node("node0", host, f"StrictHostKeyChecking {word}")
        async with node(user, Person()) as made:
            await made.connect()
        assert public("host") in user.known_hosts.read_text()


@pytest.mark.parametrize("word", ["ask", "accept-new", "yes"])
async def test_changed_key_is_refused_with_its_place(user: Home, word: str) -> None:
    async with serve() as host:
        user.known_hosts.write_text("# first line\n")
        user.knows(host, "another")
        user.node("node0", host, f"StrictHostKeyChecking {word}")
        person = Person("yes")
        async with node(user, person) as made:
            with pytest.raises(Refused, match="another host key than before") as caught:
                await made.connect()
        assert f"{user.known_hosts}:2" in str(caught.value)
        assert person.questions == []


@pytest.mark.parametrize("trusts_key", [True, False])
async def test_changed_key_with_checking_off_gets_no_password(user: Home, trusts_key: bool) -> None:
    async with serve(Host(passwords=["right"], user_keys=("user",) if trusts_key else ())) as host:
        user.knows(host, "another")
        user.node("node0", host, "StrictHostKeyChecking no")
        person = Person("right")
        async with node(user, person) as made:
            if trusts_key:
                await made.connect()
            else:
                with pytest.raises(Refused):
                    await made.connect()
        assert person.questions == []
        assert host.offered == []


async def test_a_mended_known_hosts_is_noticed(user: Home) -> None:
    async with serve() as host:
        user.knows(host, "another")
        user.node("node0", host)
        async with node(user, Person()) as made:
            with pytest.raises(Refused):
                await made.connect()
            user.known_hosts.write_text("")
            user.knows(host)
            await made.connect()


async def test_revoked_key_is_refused(user: Home) -> None:
    async with serve() as host:
        user.knows(host)
        user.knows(host, marker="@revoked")
        user.node("node0", host)
        async with node(user, Person("yes")) as made:
            with pytest.raises(Refused, match="revoked"):
                await made.connect()


def answer_of_ssh(user: Home) -> str:
    """How the real ssh ends with a host, in its own words."""
    words = ["ssh", "-F", str(user.config), "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "node0", "true"]
    return subprocess.run(words, capture_output=True, text=True, timeout=30.0, check=False).stderr


@pytest.mark.parametrize("strict", ["ask", "no"])
@pytest.mark.parametrize("shown", ["key", "certificate"])
@pytest.mark.parametrize(
    ("listed", "why"),
    [
        ("the key", "is revoked by .*revoked: no"),
        ("the authority", "is revoked by .*revoked: no"),
        ("another key", ""),
        ("nonsense", "revoked:1, which is no public key"),
        ("nothing there", "which cannot be read"),
        ("a binary list", "whose binary list hangtop cannot read"),
    ],
)
async def test_keys_that_are_revoked_for_every_host(user: Home, listed: str, why: str, shown: str, strict: str) -> None:
    certificate = key("authority").generate_host_certificate(key("host"), "it", principals=["127.0.0.1"])
    file = user.folder / "revoked"
    lines = {"the key": public("host"), "the authority": public("authority"), "another key": public("other")}
    if listed == "a binary list":
        file.write_bytes(b"SSHKRL\n\0\0\0\0\1")
    elif listed != "nothing there":
        file.write_text(f"{lines.get(listed, listed)}\n")
    async with serve(Host(host_certificate=certificate if shown == "certificate" else None)) as host:
        user.knows(host)
        user.knows(host, "authority", marker="@cert-authority")
        user.node("node0", host, f"RevokedHostKeys {file}", f"StrictHostKeyChecking {strict}")
        refuses = bool(why) and not (listed == "the authority" and shown == "key")
        said = await asyncio.to_thread(answer_of_ssh, user)
        assert ("Host key verification failed" in said) == refuses, said
        async with node(user, Person("yes")) as made:
            if refuses:
                with pytest.raises(Refused, match=why):
                    await made.connect()
            else:
                await made.connect()


async def test_certificate_of_a_known_authority(user: Home) -> None:
    certificate = key("authority").generate_host_certificate(key("host"), "it", principals=["127.0.0.1"])
    async with serve(Host(host_certificate=certificate)) as host:
        user.knows(host, "authority", marker="@cert-authority")
        user.node("node0", host)
        async with node(user, Person()) as made:
            await made.connect()
        user.known_hosts.write_text("")
        user.knows(host, "stranger", marker="@cert-authority")
        async with node(user, Person()) as made:
            with pytest.raises(Declined, match="was not accepted"):
                await made.connect()
        user.knows(host)
        async with node(user, Person()) as made:
            await made.connect()


async def test_the_kind_of_key_that_is_known_is_asked_for(user: Home) -> None:
    person = Person()
    async with serve(Host(host_keys=("host", "ec-host"))) as host:
        user.knows(host, "ec-host")
        user.node("node0", host)
        async with node(user, person) as made:
            await made.connect()
    assert person.questions == []


async def test_key_of_another_type_is_a_changed_key(user: Home) -> None:
    async with serve() as host:
        user.knows(host, "ec-host")
        user.node("node0", host, "StrictHostKeyChecking accept-new")
        person = Person("yes")
        async with node(user, person) as made:
            with pytest.raises(Refused, match=rf"another host key than before.*{user.known_hosts}:1"):
                await made.connect()
        assert person.questions == []


async def test_the_key_of_port_22_does_not_make_another_port_s_changed_but_is_told(user: Home) -> None:
    async with serve() as host:
        user.known_hosts.write_text(f"127.0.0.1 {public('other')}\n")
        user.node("node0", host)
        person = Person("once")
        async with node(user, person) as made:
            await made.connect()
        assert f"On port 22 it has another key: {user.known_hosts}:1" in person.questions[0].detail


async def test_alias_hash_and_plain_name(user: Home) -> None:
    person = Person()
    async with serve() as host:
        user.node("node0", host, "HostKeyAlias model-cluster")
        user.known_hosts.write_text(f"model-cluster {public('host')}\n")
        subprocess_hash(user.known_hosts)
        async with node(user, person) as made:
            await made.connect()
        user.known_hosts.write_text(f"model-cluster {public('host')}\n")
        async with node(user, person) as made:
            await made.connect()
    assert person.questions == []


def subprocess_hash(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(path)], check=True, capture_output=True)


async def test_loopback_may_go_unchecked(user: Home) -> None:
    person = Person()
    async with serve() as host:
        user.knows(host, "another")
        user.node("node0", host, "NoHostAuthenticationForLocalhost yes")
        async with node(user, person) as made:
            await made.connect()
    assert person.questions == []


async def test_a_known_hosts_that_cannot_be_written_is_told_and_not_in_the_way(user: Home) -> None:
    async with serve() as host:
        user.known_hosts.mkdir()
        user.node("node0", host)
        person = Person("yes")
        connector = Connector(SshConfig.load(user.config), Questions(person))
        made = Ssh("node0", connector.settings("node0", None, None), connector)
        await made.connect()
        assert str(user.known_hosts) in person.told[0]
        await made.close()
        await connector.close()


async def test_keys_that_are_exchanged_anew_need_no_second_judgement_but_other_keys_do(user: Home) -> None:
    async with serve() as host:
        user.knows(host)
        user.node("node0", host)
        connector = Connector(SshConfig.load(user.config), Questions(Person()))
        settings = connector.settings("node0", None, None)
        connection, client = await connector.open(settings, "node0", lambda _reason: None)
        user.known_hosts.write_text("")
        connector._host_keys.read(settings)
        assert client.validate_host_public_key("", "", 0, key("host").convert_to_public())
        assert not client.validate_host_public_key("", "", 0, key("other").convert_to_public())
        certificate = key("authority").generate_host_certificate(key("host"), "it", principals=["127.0.0.1"])
        user.knows(host, "authority", marker="@cert-authority")
        connector._host_keys.read(settings)
        client.judge_certificate(certificate)
        assert client.validate_host_public_key("", "", 0, key("host").convert_to_public())
        assert not client.validate_host_public_key("", "", 0, key("other").convert_to_public()), "vouched for once"
        connection.abort()
        await connector.close()
