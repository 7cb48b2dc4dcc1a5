"""All of it together: a fleet over servers in this loop that send what no node should."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import asyncssh
import pytest

from collectors.fleet import node_link, share
from collectors.fleet.fleet import Fleet
from collectors.fleet.targets.chosen import resolve
from collectors.fleet.transport import TransportError
from collectors.samples.stream import Hello, Settings, Tick
from tests.support.seen import Seen
from tests.support.ssh_server import Home, Host, Person, serve

SETTINGS = Settings(0.2, 0.0, None, [], [], [])
HELLO = b'["Hello",["3.11","gpu1","b","x86_64","6.1",7,1.0]]\n'
TICK = b'["Tick",[1,2.0,0.5,0.25,4096]]\n'


@pytest.fixture(autouse=True)
def fast_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats and looks come ten times as often."""
    monkeypatch.setattr(node_link, "TURN", 0.1)


@asynccontextmanager
async def fleet(user: Home, names: Sequence[str], seen: Seen, person: Person | None = None) -> AsyncIterator[Fleet]:
    ask = (person or Person()).ask
    made = Fleet(resolve(names), SETTINGS, sink=seen, ask=ask, ssh_config=user.config)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


def player(*chunks: bytes) -> Host:
    """A node whose program says this and then stays."""

    async def play(process: asyncssh.SSHServerProcess[bytes]) -> None:
        for chunk in chunks:
            process.stdout.write(chunk)
            await process.stdout.drain()
        await process.stdin.read()
        process.exit(0)

    return Host(handler=play)


class Slow(Seen):
    """A session that works 20 µs on each sample."""

    def samples(self, node: str, samples: Sequence[NamedTuple]) -> None:
        until = time.thread_time() + 0.00002 * len(samples)
        while time.thread_time() < until:
            pass
        super().samples(node, samples)


async def test_a_node_that_floods_is_said_to_and_leaves_the_loop_to_the_others(
    user: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("SUSTAINED", 0.002), ("MOST", 0.02), ("SAVED", 0.05)):  # looks come ten times as often
        monkeypatch.setattr(share, name, seconds)

    async def flood(process: asyncssh.SSHServerProcess[bytes]) -> None:
        process.stdout.write(HELLO)
        while not process.stdin.at_eof():
            process.stdout.write(TICK * 50)
            await process.stdout.drain()
            await asyncio.sleep(0)

    async def tick(process: asyncssh.SSHServerProcess[bytes]) -> None:
        process.stdout.write(HELLO)
        while not process.stdin.at_eof():
            process.stdout.write(TICK)
            await asyncio.sleep(0.2)

    seen = Slow()
    async with serve(Host(handler=flood)) as bad, serve(Host(handler=tick)) as good:
        for name, host in (("bad", bad), ("good", good)):
            user.knows(host)
            user.node(name, host)
        async with fleet(user, ["bad", "good"], seen):
            await seen.until("bad", "limited", "the rest waits there")
            ticks, taken = len(seen.of("good", Tick)), len(seen.of("bad", Tick))
            began = time.monotonic()
            await seen.wait(lambda: len(seen.of("good", Tick)) > ticks + 5)
            looks = (time.monotonic() - began) / 0.1 + 2
            # the share of a look is 100 samples, and a packet of 50 may go beyond it
            assert len(seen.of("bad", Tick)) - taken <= looks * 150
    assert [change.link for change in seen.changes if change.node == "good"] == ["connecting", "live"]


async def test_heartbeats_reach_every_node_and_settings_keep_each_its_phase(user: Home) -> None:
    said: dict[int, bytes] = {}

    async def listen(process: asyncssh.SSHServerProcess[bytes]) -> None:
        port = process.get_extra_info("sockname")[1]
        process.stdout.write(HELLO)
        while data := await process.stdin.read(65536):
            said[port] = said.get(port, b"") + data
            if data == b"\n":
                process.stdout.write(TICK)

    seen = Seen()
    async with serve(Host(handler=listen)) as one, serve(Host(handler=listen)) as two:
        for name, host in (("node0", one), ("node1", two)):
            user.knows(host)
            user.node(name, host)
        async with fleet(user, ["node[0-1]"], seen) as made:
            assert made.nodes == ("node0", "node1")
            await seen.wait(lambda: seen.now("node0").link == seen.now("node1").link == "live")
            made.settings(None, SETTINGS._replace(on_view=["/log"]))
            made.settings("node1", SETTINGS._replace(interval=5.0))
            await seen.wait(lambda: bool(seen.of("node0", Tick) and seen.of("node1", Tick)))
            assert made.transport("node0").python == "python3"
            assert made.transport("node0").name == "node0"
    lines = re.findall(rb'\["Settings",\[(.*?)\]\]\n', said[one.port])
    assert lines == [b'0.2,0.0,null,[],["/log"],[],false']
    lines = re.findall(rb'\["Settings",\[(.*?)\]\]\n', said[two.port])
    assert lines == [b'0.2,0.5,null,[],["/log"],[],false', b"5.0,0.5,null,[],[],[],false"]


async def test_a_node_that_the_configuration_makes_unusable_is_lost_alone(user: Home) -> None:
    seen = Seen()
    async with serve(player(HELLO, TICK)) as host:
        user.knows(host)
        user.node("good", host)
        user.lines += ["Host bad", "HostName %q"]
        async with fleet(user, ["good", "bad"], seen) as made:
            await seen.until("good", "live")
            lost = await seen.until("bad", "lost", "Invalid token expansion: q")
            assert "ssh_config of bad" in lost.why
            assert lost.refused
            with pytest.raises(TransportError, match="bad is lost: ssh_config"):
                made.transport("bad")
            with pytest.raises(TransportError, match="other: no such node"):
                made.transport("other")
            made.settings(None, SETTINGS)


async def test_a_declined_question_is_asked_again_when_the_person_wants_it(user: Home) -> None:
    seen, person = Seen(), Person(False, True)
    async with serve(player(HELLO, TICK)) as host:
        user.node("node0", host)
        async with fleet(user, ["node0"], seen, person) as made:
            await seen.until("node0", "lost", "was not accepted")
            made.retry("node0")
            await seen.until("node0", "live")
    assert len(person.questions) == 2


def failing(found: bytes, *, greets: bool, status: int | str) -> Host:
    """A node whose program ends so, and that answers ``found`` where a Python is looked for."""

    async def play(process: asyncssh.SSHServerProcess[bytes]) -> None:
        if "for name in python3" in (process.command or ""):
            process.stdout.write(found)
            process.exit(0)
            return
        if greets:
            process.stdout.write(HELLO + TICK)
        process.stderr.write(b"Traceback\n  \x1b[31mMemoryError\n")
        if isinstance(status, str):
            process.exit_with_signal(status)
        else:
            process.exit(status)

    return Host(handler=play)


@pytest.mark.parametrize(
    ("host", "why"),
    [
        (failing(b"", greets=True, status="KILL"), "ended (killed by SIGKILL): MemoryError"),
        (failing(b"", greets=True, status="ALRM"), "heard nothing from here for too long"),
        (failing(b"", greets=True, status=1), "ended (status 1): MemoryError"),
        (
            failing(b"shell\n", greets=False, status=127),
            "there is no Python 3.8 or newer on the PATH there: name one by",
        ),
        (
            failing(b"Account not available.\n", greets=False, status=127),
            "no shell runs commands there: Account not av",
        ),
    ],
    ids=["killed", "unheard", "ended", "no Python", "no shell"],
)
async def test_why_a_node_side_does_not_run_is_told(user: Home, host: Host, why: str) -> None:
    seen = Seen()
    async with serve(host):
        user.knows(host)
        user.node("node0", host)
        async with fleet(user, ["node0"], seen):
            await seen.wait(lambda: any(change.link == "lost" and why in change.why for change in seen.changes))
    assert seen.bad == []


async def test_this_machine_without_ssh() -> None:
    seen = Seen()
    made = Fleet(resolve([]), SETTINGS, sink=seen, ask=Person().ask)
    await made.start()
    (name,) = made.nodes
    await seen.until(name, "live")
    await seen.wait(lambda: len(seen.of(name, Tick)) > 1)
    (hello,) = seen.of(name, Hello)
    assert isinstance(hello, Hello)
    process = made.transport(name)
    assert (await process.run(["kill", "-0", str(hello.pid)])).status == 0
    await made.close()
    assert seen.bad == []
