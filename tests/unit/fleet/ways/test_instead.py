"""A second way is taken where the first is closed, told once, and kept."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from collectors.fleet.ssh.asking import Questions
from collectors.fleet.ssh.config import SshConfig
from collectors.fleet.ssh.connector import Connector
from collectors.fleet.ssh.node import Ssh
from collectors.fleet.targets.chosen import Target
from collectors.fleet.transport import TransportError
from collectors.fleet.ways.command import AnyCommand
from collectors.fleet.ways.instead import Instead
from collectors.fleet.ways.piped import Piped
from tests.support.ssh_server import Person, home


def made(folder: Path, command: str, told: list[str]) -> Instead:
    user = home(folder)
    user.lines += ["Host node0", "HostName 127.0.0.1", "Port 1"]
    connector = Connector(SshConfig.load(user.config), Questions(Person()))
    first = Ssh("node0", connector.settings("node0", None, None), connector)
    return Instead(first, Piped(Target("node0", "node0"), AnyCommand(command), asyncio.Semaphore(2)), told.append)


async def test_the_other_way_is_taken_told_and_kept(tmp_path: Path) -> None:
    told: list[str] = []
    node = made(tmp_path, "sh -c 'exec sh' %h", told)
    await node.connect()
    assert node.connected
    assert (await node.run(["echo", "x"])).stdout == b"x\n"
    (text,) = told
    assert "node0 is reached by steps of its job, for SSH fails there: nothing listens" in text
    await node.connect()
    assert told == [text]
    await node.close()
    assert not node.connected


async def test_both_closed_says_why_of_both(tmp_path: Path) -> None:
    told: list[str] = []
    node = made(tmp_path, "sh -c 'echo no step >&2; exit 1' %h", told)
    with pytest.raises(TransportError, match=r"nothing listens.*; and by another way: .*no step"):
        await node.connect()
    assert told == []
    assert not node.connected
