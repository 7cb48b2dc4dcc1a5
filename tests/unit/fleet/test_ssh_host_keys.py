"""Whether the host is the right one: as OpenSSH decides it, and no key is trusted silently."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.fleet.ssh.known_hosts import read_known_hosts
from collectors.fleet.transport import Refused
from tests.support.ssh_server import Home, Person, key, nodes, public, serve


async def test_unknown_key_is_asked_about_and_remembered_when_the_answer_is_yes(user: Home) -> None:
    async with serve() as host:
        user.node("node0", host)
        person = Person(True)
        for _ in range(2):
            async with nodes(user, person) as (made,):
                await made.connect()
        (question,) = person.questions
        assert question.key.endswith(key("host").get_fingerprint())
        assert user.known_hosts.read_text() == f"[127.0.0.1]:{host.port} {public('host')}\n"


@pytest.mark.parametrize(("line", "answer"), [("StrictHostKeyChecking yes", True), ("BatchMode yes", True), ("", None)])
async def test_unknown_key_where_nobody_may_be_asked(user: Home, line: str, answer: bool | None) -> None:
    async with serve() as host:
        user.node("node0", host, line)
        person = Person(answer)
        async with nodes(user, person) as (made,):
            with pytest.raises(Refused, match="is in no known_hosts file"):
                await made.connect()
        assert len(person.questions) == (answer is None)


async def test_a_changed_key_is_refused_even_where_no_key_is_checked(user: Home) -> None:
    async with serve() as host:
        user.knows(host, "another")
        user.node("node0", host, "StrictHostKeyChecking no")
        person = Person(True)
        async with nodes(user, person) as (made,):
            with pytest.raises(Refused, match="another host key than before"):
                await made.connect()
        assert person.questions == []


async def test_a_mended_known_hosts_is_noticed(user: Home) -> None:
    async with serve() as host:
        user.knows(host, "another")
        user.node("node0", host)
        async with nodes(user, Person()) as (made,):
            with pytest.raises(Refused):
                await made.connect()
            user.known_hosts.write_text("")
            user.knows(host)
            await made.connect()


@pytest.mark.parametrize("names", [",", "node1,", ",node1", "node1,,node2"])
def test_an_empty_name_is_no_name_of_every_host(tmp_path: Path, names: str) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(f"{names} {public('a')}\n@cert-authority {names} {public('a')}\n")
    assert read_known_hosts([path]).match("other", "", None)[:2] == ([], [])
