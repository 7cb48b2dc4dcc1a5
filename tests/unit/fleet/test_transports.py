"""What every transport promises, asked of each: SSH, a command that gives a shell, and this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectors.fleet.targets.chosen import Target
from collectors.fleet.transport import Transport, TransportError
from collectors.fleet.via.piped import Piped
from collectors.fleet.via.way import HERE, Way, any_command
from tests.support.ssh_server import Host, Person, home, nodes, serve

Opened = Callable[[Path], AbstractAsyncContextManager[Transport]]


@asynccontextmanager
async def by_ssh(folder: Path) -> AsyncIterator[Transport]:
    user, host = home(folder), Host()
    async with serve(host):
        user.knows(host)
        user.node("node0", host, f"IdentityFile {user.key('user')}")
        async with nodes(user, Person()) as (node,):
            await node.connect()
            yield node


def by_command(way: Way) -> Opened:
    @asynccontextmanager
    async def opened(folder: Path) -> AsyncIterator[Transport]:
        node = Piped(Target("node0", "node0"), way, asyncio.Semaphore(8))
        await node.connect()
        try:
            yield node
        finally:
            await node.close()

    return opened


TALKATIVE = "sh -c 'echo welcome to $0; echo notice >&2; exec sh' %h"
WAYS: dict[str, Opened] = {
    "ssh": by_ssh,
    "command": by_command(any_command("sh -c 'exec sh' %h")),
    "with a banner": by_command(any_command(TALKATIVE)),
    "this machine": by_command(HERE),
}


@pytest.fixture(params=WAYS)
def opened(request: pytest.FixtureRequest) -> Opened:
    return WAYS[request.param]


async def test_status_output_and_input(opened: Opened, tmp_path: Path) -> None:
    async with opened(tmp_path) as node:
        done = await node.run(["sh", "-c", "cat; echo err >&2; exit 3"], stdin=b"in\x00put")
        assert (done.status, done.stdout) == (3, b"in\x00put")
        assert b"err\n" in done.stderr
        assert (await node.run(["sh", "-c", "kill -KILL $$"])).status == -9
        assert (await node.run(["head", "-c", "300000", "/dev/zero"], limit=1000)).stdout == bytes(1000)
        marks = b"\x1eE0123\x1eB\x1e" * 20000
        assert (await node.run(["cat"], stdin=marks)).stdout == marks


async def test_a_command_that_is_not_there(opened: Opened, tmp_path: Path) -> None:
    async with opened(tmp_path) as node:
        assert (await node.run(["no-such-command"])).status == 127


async def test_a_command_that_does_not_end_is_left(opened: Opened, tmp_path: Path) -> None:
    async with opened(tmp_path) as node:
        with pytest.raises(TransportError, match=r"node0: sleep did not end within 0\.5 s"):
            await node.run(["sleep", "30"], timeout=0.5)
        assert (await node.run(["echo", "still there"])).stdout == b"still there\n"


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=1, max_size=4))
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_words_arrive_as_they_were(
    opened: Opened, tmp_path_factory: pytest.TempPathFactory, arguments: list[str]
) -> None:
    async def main() -> bytes:
        async with opened(tmp_path_factory.mktemp("words")) as node:
            return (await node.run(["printf", "%s\\0", *arguments])).stdout

    assert asyncio.run(main()) == b"".join(argument.encode() + b"\0" for argument in arguments)


async def test_a_stream_pauses_and_ends(opened: Opened, tmp_path: Path) -> None:
    async with opened(tmp_path) as node:
        out: asyncio.Queue[bytes] = asyncio.Queue()
        process = await node.start(["cat"], on_stdout=out.put_nowait, on_stderr=print)
        process.write(b"one\n")
        assert await out.get() == b"one\n"
        process.pause()
        process.write(b"two\n")
        await node.run(["true"])  # a round trip: what cat says is here by now
        assert out.empty()
        process.resume()
        assert await out.get() == b"two\n"
        process.write_eof()
        assert await process.wait() == 0
        process.write(b"to nobody")
        process.write_eof()
        process.pause()
        process.resume()
        process.kill()
        assert node.connected


async def test_thirty_commands_at_once(opened: Opened, tmp_path: Path) -> None:
    async with opened(tmp_path) as node:
        done = await asyncio.gather(*(node.run(["echo", str(number)]) for number in range(30)))
        assert [one.stdout for one in done] == [b"%d\n" % number for number in range(30)]
