"""A password is for the hosts that its question names, and no other host is offered it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from collectors.fleet.ssh.asking import likeness
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
        assert ["for all hosts gpu#" in question.detail for question in person.questions] == [True, False]


async def test_hosts_of_one_kind_are_offered_it_and_a_wrong_one_asks_for_its_own(user: Home) -> None:
    async with serve(wants("right")) as one, serve(wants("right")) as two, serve(wants("other")) as three:
        for number, host in enumerate((one, two, three), start=1):
            named(user, f"gpu{number}", host)
        person = Person("right", "other")
        async with nodes(user, person, "gpu1", "gpu2", "gpu3") as found:
            await found[0].connect()
            await asyncio.gather(*(node.connect() for node in found))
            await found[0].close()
            await found[0].connect()
        assert two.offered == ["right"]
        assert three.offered == ["right", "other"]
        assert len(person.questions) == 2


@pytest.mark.parametrize(
    ("host", "like"),
    [
        ("gpu07", "gpu#"), ("GPU7", "gpu#"), ("gpu-1-2.lab2.org", "gpu-#-#.lab2.org"), ("login", "login"),
        ("10.0.7.5", "10.0.7.0/24"), ("2001:db8::5", "2001:db8::/64"),
    ],
)  # fmt: skip
def test_what_hosts_are_alike(host: str, like: str) -> None:
    assert likeness(host) == like
