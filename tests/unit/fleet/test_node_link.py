"""A node's way from connecting to lost and back, with the reason of every step."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from collectors.fleet import link_state, node_link, share
from collectors.fleet.node_link import LinkOptions, NodeLink
from collectors.fleet.sink import LinkChange
from collectors.fleet.transport import Completed, Declined, Refused, TransportError, Waiting, waits_silently
from collectors.samples.control import Settings
from collectors.samples.stream import Fault, Hello, Tick
from tests.support.seen import Seen

SETTINGS = Settings(1.0, 0.25, None, [], [], [])
HELLO = Hello("v", "3.11", "gpu1", "b", "x86_64", "6.1", 0, 7, 1.0, ["ranks"])
TICK = Tick(1, 2.0, 0.5, 0.25, 4096)


def line(sample: NamedTuple) -> bytes:
    return json.dumps([type(sample).__name__, sample]).encode() + b"\n"


class FakeProcess:
    """A program on the node that the test plays."""

    def __init__(self, command: Sequence[str], say: Callable[[bytes], None], complain: Callable[[bytes], None]) -> None:
        self.command = list(command)
        self.say = say
        self.complain = complain
        self.written = b""
        self.held: list[bool] = []
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def write(self, data: bytes) -> None:
        self.written += data

    def write_eof(self) -> None:
        self.end(0)

    async def wait(self) -> int:
        return await asyncio.shield(self.ended)

    def end(self, status: int) -> None:
        if not self.ended.done():
            self.ended.set_result(status)

    def kill(self) -> None:
        self.end(-9)

    def pause(self) -> None:
        self.held.append(True)

    def resume(self) -> None:
        self.held.append(False)


class FakeNode:
    """A transport that the test plays."""

    name = "node1"

    def __init__(self) -> None:
        self.connected = False
        self.why = ""
        self.failures: list[Exception] = []
        self.answers: dict[str, Completed] = {}
        self.started: asyncio.Queue[FakeProcess] = asyncio.Queue()
        self.attempts = 0
        self.waiting: Waiting = waits_silently
        self.silent = 0.0
        self.ran: list[list[str]] = []

    async def connect(self, waiting: Waiting = waits_silently) -> None:
        self.attempts += 1
        self.waiting = waiting
        if self.failures:
            raise self.failures.pop(0)
        self.connected = True

    def not_responding(self, seconds: float) -> None:
        self.silent = seconds

    async def run(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0, limit: int = 1 << 20
    ) -> Completed:
        self.ran.append(list(command))
        for word, answer in self.answers.items():
            if word in " ".join(command):
                return answer
        return Completed(127, b"", b"")

    async def start(
        self, command: Sequence[str], *, on_stdout: Callable[[bytes], None], on_stderr: Callable[[bytes], None]
    ) -> FakeProcess:
        process = FakeProcess(command, on_stdout, on_stderr)
        self.started.put_nowait(process)
        return process

    async def close(self) -> None:
        self.connected = False

    def lose(self, process: FakeProcess, why: str) -> None:
        self.connected, self.why = False, why
        process.end(-1)


class Watched(Seen):
    """What the link of one node delivered."""

    @property
    def state(self) -> tuple[str, str]:
        return self.changes[-1].link, self.changes[-1].why

    async def saw(self, link: str, why: str = "") -> LinkChange:
        """Wait for a state with such a reason, now or before."""
        found: list[LinkChange] = []

        def there() -> bool:
            found[:] = [change for change in self.changes if change.link == link and why in change.why]
            return bool(found)

        await self.wait(there)
        return found[0]


class Scene(NamedTuple):
    node: FakeNode
    seen: Watched
    link: NodeLink

    async def process(self) -> FakeProcess:
        """The next program started on the node."""
        return await asyncio.wait_for(self.node.started.get(), 60)


@asynccontextmanager
async def scene(python: str | None = None, *failures: Exception) -> AsyncIterator[Scene]:
    node, seen = FakeNode(), Watched()
    node.failures += failures
    link = NodeLink(node, LinkOptions(seen, "v1", python), SETTINGS, "python3")
    link.start()
    try:
        yield Scene(node, seen, link)
    finally:
        await link.close()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_state, "FIRST", 0.0)


async def live(it: Scene) -> FakeProcess:
    process = await it.process()
    process.say(line(HELLO) + line(TICK))
    assert it.seen.state == ("live", "")
    return process


async def test_from_connecting_to_live() -> None:
    async with scene() as it:
        assert it.seen.state == ("connecting", "")
        with pytest.raises(TransportError, match="node1 is connecting"):
            _ = it.link.transport
        process = await it.process()
        assert process.command[0] == "python3"
        sizes = int(process.written[:8], 16), int(process.written[8:16], 16)
        arguments = json.loads(process.written[16 + sizes[0] :])
        assert arguments == {"version": "v1", "settings": [1.0, 0.25, None, [], [], [], False]}
        process.say(line(HELLO)[:20])
        assert it.seen.state == ("connecting", "")
        process.say(line(HELLO)[20:])
        assert it.seen.state == ("live", "")
        assert it.link.transport is it.node
        assert it.seen.taken["node1"] == [HELLO]


async def test_heartbeats_and_settings_go_down_the_control_line() -> None:
    async with scene() as it:
        process = await live(it)
        before = len(process.written)
        it.link.beat(b'["Beat",[1]]\n')
        it.link.configure(SETTINGS._replace(interval=2.0))
        assert process.written[before:] == b'["Beat",[1]]\n["Settings",[2.0,0.25,null,[],[],[],false]]\n'
        process.end(1)
        again = await it.process()
        assert b'"settings": [2.0,' in again.written, "a new start knows them too"


async def test_stale_when_ticks_stop_and_live_when_they_come_again() -> None:
    async with scene() as it:
        process = await live(it)
        it.link.look(it.link._ticked_at + 3.0)
        assert it.seen.state == ("live", "")
        it.link.look(it.link._ticked_at + 4.2)
        assert it.seen.state == ("stale", "no sample comes any more")
        process.say(line(Fault("gpus", "still no tick", 1)))
        assert it.seen.state[0] == "stale"
        process.say(line(TICK))
        assert it.seen.state == ("live", "")


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (-signal.SIGKILL, "was killed (SIGKILL)"),
        (-signal.SIGALRM, "heard nothing from here for too long"),
        (-200, "was killed (signal 200)"),
        (1, "ended (status 1): MemoryError"),
    ],
)
async def test_an_end_of_the_node_side_is_told_apart_and_mended(status: int, why: str) -> None:
    async with scene() as it:
        process = await live(it)
        process.complain(b"Traceback\n  \x1b[31mMemoryError\n")
        process.end(status)
        lost = await it.seen.saw("lost", why)
        assert lost.next_try is not None
        assert it.node.connected, "the connection is kept"
        await live(it)
        assert it.node.attempts == 2


async def test_a_lost_connection_says_why_and_comes_back() -> None:
    async with scene() as it:
        process = await live(it)
        it.node.failures.append(TransportError("nothing listens at node1 port 22"))
        it.node.lose(process, "no answer for 8 s")
        await it.seen.saw("lost", "no answer for 8 s")
        await it.seen.saw("lost", "nothing listens")
        await live(it)


FOUND = b"hi\nshell\npython 3.6 /usr/bin/python3\npython 3.9 /opt/py/python3.9\n"


async def test_python_that_is_not_there_is_looked_for() -> None:
    async with scene() as it:
        it.node.answers["for name in python3"] = Completed(0, FOUND, b"")
        (await it.process()).end(127)
        process = await it.process()
        assert process.command[0] == it.link.python == "/opt/py/python3.9"
        process.complain(b"ImportError: no zlib\n")
        process.end(1)
        await it.seen.saw("lost", "/opt/py/python3.9 could not start there (status 1): ImportError: no zlib")


async def test_the_python_that_was_named_is_the_only_one() -> None:
    async with scene("/my/python") as it:
        process = await it.process()
        assert process.command[0] == "/my/python"
        process.complain(b"sh: /my/python: not found\n")
        process.end(127)
        await it.seen.saw("lost", "/my/python could not start there (status 127): sh: /my/python: not found")


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (b"shell\n", "there is no Python 3.8 or newer on the PATH there: name one by --python"),
        (b"shell\npython 3.6 /usr/bin/python3\n", "no Python 3.8 or newer on the PATH there, only 3.6 (/usr/bin"),
        (b"This account is currently not available.\n", "no shell runs commands there: This account is currently not"),
    ],
)
async def test_a_node_without_a_python_that_is_new_enough_says_so(found: bytes, why: str) -> None:
    async with scene() as it:
        it.node.answers["for name in python3"] = Completed(0, found, b"")
        (await it.process()).end(127)
        lost = await it.seen.saw("lost", why)
        assert lost.next_try is not None


async def test_silence_from_the_start_is_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_link, "FIRST_WORD", 0.01)
    async with scene() as it:
        process = await it.process()
        await it.seen.saw("lost", "python3 said nothing there for 0 s")
        assert process.ended.done()


async def test_a_talkative_profile_is_counted_and_not_in_the_way() -> None:
    async with scene() as it:
        process = await it.process()
        process.say(b"Welcome to \x1b[1mgpu1\x1b[0m!\n")
        process.say(line(HELLO))
        assert it.seen.state == ("live", "")
        it.link.look(it.link._ticked_at)
        assert it.seen.bad == [("node1", "Welcome to gpu1!", "no sample")]


async def test_a_flood_waits_in_its_own_pipe_and_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a node may take is CPU of this machine: of a share that is nothing the first sample uses all."""
    monkeypatch.setattr(share, "SAVED", 0.0)
    monkeypatch.setattr(share, "SUSTAINED", 1e-9)
    async with scene() as it:
        process = await live(it)
        assert process.held == [True]
        process.say(line(TICK) * 2)
        assert len(it.seen.taken["node1"]) == 4, "nothing is dropped"
        it.link.look(it.link._ticked_at)
        assert process.held == [True, False]
        monkeypatch.setattr(share, "SUSTAINED", 10.0)
        monkeypatch.setattr(share, "SAVED", 20.0)
        assert it.seen.state == ("limited", node_link.FLOODS)
        it.link.look(it.link._ticked_at)
        assert it.seen.state == ("live", "")


async def test_refused_waits_long_and_declined_waits_for_the_person() -> None:
    async with scene(None, Refused("changed host key"), Declined("not answered")) as it:
        refused = await it.seen.saw("lost", "changed host key")
        assert refused.next_try is not None
        assert refused.next_try - refused.at > 30
        it.link.retry()
        declined = await it.seen.saw("lost", "not answered")
        assert declined.next_try is None
        it.link.retry()
        await live(it)


async def test_what_it_waits_for_is_shown_and_then_forgotten() -> None:
    async with scene() as it:
        await it.process()
        it.node.waiting("waits for an answer: Password")
        assert it.seen.state == ("connecting", "waits for an answer: Password")
        it.node.waiting("")
        assert it.seen.state == ("connecting", "")


async def test_a_fault_of_our_own_is_shown_and_reported() -> None:
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
    async with scene(None, RuntimeError("bug")) as it:
        await it.seen.saw("lost", "a fault in hangtop: RuntimeError('bug')")
    assert isinstance(reported[0]["exception"], RuntimeError)


def test_waits_double_up_to_a_limit_and_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_state, "FIRST", 0.5)
    waits = link_state.Backoff()
    row = [waits.failed() for _ in range(8)]
    assert all(0.6 * nominal <= wait <= nominal for wait, nominal in zip(row, [0.5, 1, 2, 4, 8, 8, 8, 8], strict=True))
    waits.succeeded()
    assert waits.failed() <= 0.5
    assert 36 <= waits.refused() <= 60


async def test_a_stream_greets_once() -> None:
    async with scene() as it:
        process = await live(it)
        process.say((line(HELLO._replace(boot_id="other")) + line(TICK)) * 50)
        assert it.seen.of("node1", Hello) == [HELLO]
        assert len(it.seen.of("node1", Tick)) == 51
