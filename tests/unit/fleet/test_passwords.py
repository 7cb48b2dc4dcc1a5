"""A password is for the host that it was typed in for; for hosts like it by consent, for others never unasked."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from collectors.fleet.ssh.asking import likeness
from collectors.fleet.transport import TransportError
from tests.support.ssh_server import Home, Host, Person, home, nodes, public, serve


@pytest.fixture
def user(tmp_path: Path) -> Home:
    return home(tmp_path)


def named(user: Home, name: str, host: Host) -> None:
    """A host that is known under this name."""
    user.node(name, host, "IdentityFile none", f"HostKeyAlias {name}")
    with user.known_hosts.open("a") as file:
        file.write(f"{name} {public('host')}\n")


def wants(*passwords: str) -> Host:
    return Host(user_keys=(), passwords=passwords)


async def test_a_host_of_another_kind_is_not_offered_what_was_right_elsewhere(user: Home) -> None:
    async with serve(wants("right")) as ours, serve(wants("another")) as theirs:
        named(user, "gpu1", ours)
        named(user, "login", theirs)
        person = Person("right", "another")
        async with nodes(user, person, "gpu1", "login") as found:
            for node in found:
                await node.connect()
        assert theirs.offered == ["another"]
        assert [question.kind for question in person.questions] == ["password", "password"]


async def test_hosts_alike_are_offered_it_by_consent_which_is_asked_for_once(user: Home) -> None:
    async with serve(wants("right")) as one, serve(wants("right")) as two, serve(wants("right")) as three:
        for number, host in enumerate((one, two, three), start=1):
            named(user, f"gpu{number}", host)
        person = Person("right", "yes")
        async with nodes(user, person, "gpu1", "gpu2", "gpu3") as found:
            await found[0].connect()
            assert two.offered == []
            await asyncio.gather(*(node.connect() for node in found))
        assert [question.kind for question in person.questions] == ["password", "reuse"]
        assert "tester@gpu1 to all other hosts like gpu#" in person.questions[1].prompt
        assert not person.questions[1].secret


@pytest.mark.parametrize("said", ["no", None, ""])
async def test_without_consent_each_host_is_asked_for_its_own(user: Home, said: str | None) -> None:
    async with serve(wants("right")) as one, serve(wants("other")) as two, serve(wants("third")) as three:
        for number, host in enumerate((one, two, three), start=1):
            named(user, f"gpu{number}", host)
        person = Person("right", said, "other", "third")
        async with nodes(user, person, "gpu1", "gpu2", "gpu3") as found:
            for node in found:
                await node.connect()
        assert (two.offered, three.offered) == (["other"], ["third"])
        assert [question.kind for question in person.questions] == ["password", "reuse", "password", "password"]


async def test_a_host_keeps_its_own_for_the_next_connection(user: Home) -> None:
    async with serve(wants("right")) as host:
        named(user, "gpu1", host)
        person = Person("right")
        async with nodes(user, person, "gpu1") as (node,):
            await node.connect()
            await node.close()
            await node.connect()
        assert len(person.questions) == 1


async def test_with_a_wrong_one_shared_the_host_asks_for_its_own(user: Home) -> None:
    async with serve(wants("right")) as one, serve(wants("other")) as two:
        named(user, "gpu1", one)
        named(user, "gpu2", two)
        person = Person("right", "yes", "other")
        async with nodes(user, person, "gpu1", "gpu2") as found:
            for node in found:
                with suppress(TransportError):
                    await node.connect()
            assert [node.connected for node in found] == [True, True]
        assert two.offered == ["right", "other"]


@pytest.mark.parametrize(
    ("host", "like"),
    [
        ("gpu07", "gpu#"), ("GPU7", "gpu#"), ("gpu-1-2.lab2.org", "gpu-#-#.lab2.org"), ("login", "login"),
        ("10.0.7.5", "10.0.7.0/24"), ("2001:db8::5", "2001:db8::/64"),
    ],
)  # fmt: skip
def test_what_hosts_are_alike(host: str, like: str) -> None:
    assert likeness(host) == like
