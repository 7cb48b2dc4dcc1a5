"""NCCL's RAS, listened to while a job waits: its events, what becomes of them, and that the listening ends."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

import pytest

from collectors.fleet.local import Local
from collectors.fleet.transport import Transport, TransportError
from collectors.node.nccl.ras_monitor import LIMIT, Events
from collectors.probes import ras
from collectors.samples.collectives import RasEvent
from hangtop.session.session import Session
from hangtop.session.watching.ras_watch import RasWatch
from tests.support.local_session import LocalSession, local_session
from tests.support.made import process
from tests.support.ras_server import RasServer, known, ras_server, unknown

OPENING = b"SERVER PROTOCOL 2\nOK\nOK\n"
DEAD = b"""{
  "timestamp": "2025-12-19 13:07:07",
  "group": "LIFECYCLE",
  "event": "PEER_DEAD",
  "peer": {
    "host": "172.16.64.245",
    "pid": 1524345,
    "cuda_devs": [1,2],
    "nvml_devs": [1,2]
  },
  "details": ""
}
"""
SILENT = b"""{
  "timestamp": "2025-12-19 13:07:01",
  "group": "TRACE",
  "event": "PEER_UNRESPONSIVE",
  "peer": {
    "addr": "10.0.0.4<47011>"
  },
  "details": "peer not responding for 5s (keepalive warning)"
}
"""


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_events_are_found_in_whatever_pieces_they_come(size: int) -> None:
    said, events = OPENING + SILENT + DEAD, Events()
    found = [event for at in range(0, len(said), size) for event in events.feed(said[at : at + size])]
    assert [event._replace(at=0.0) for event in found] == [
        RasEvent(0.0, "PEER_UNRESPONSIVE", "10.0.0.4", 0, [], "peer not responding for 5s (keepalive warning)"),
        RasEvent(0.0, "PEER_DEAD", "172.16.64.245", 1524345, [1, 2], ""),
    ]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"SERVER PROTOCOL 2\nOK\nERROR: Unknown command MONITOR lifecycle,trace\n", "Unknown command MONITOR"),
        (OPENING + b'{\n  "event": PEER_DEAD\n}\n', "cannot be read"),
        (OPENING + b"x" * (LIMIT + 1), "no event"),
    ],
)
def test_what_is_no_event_is_said_to_be_none(said: bytes, why: str) -> None:
    with pytest.raises(OSError, match=why):
        Events().feed(said)


def test_fields_of_another_type_are_left_out() -> None:
    (event,) = Events().feed(OPENING + b'{\n "event": 7, "peer": {"host": [], "pid": true, "cuda_devs": [1, "x"]}\n}\n')
    assert (event.event, event.pid, event.gpus) == ("7", 1, [1])
    (event,) = Events().feed(OPENING + b'{\n "event": "PEER_NEW", "peer": 3\n}\n')
    assert (event.host, event.pid) == ("", 0)


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110 (another process says it)
            await asyncio.sleep(0.02)


async def test_events_come_until_ras_closes_and_then_it_is_said() -> None:
    heard: list[RasEvent] = []
    lost: list[int] = []
    async with ras_server(RasServer()) as server:
        where = ("127.0.0.1", server.port)
        listening = asyncio.create_task(
            ras.listen(Local("node1"), sys.executable, os.getpid(), where, heard.append, lost.append)
        )
        await until(lambda: server.listeners)
        server.tell("PEER_DEAD", known("10.0.0.4", 77), group="LIFECYCLE")
        await until(lambda: heard)
        server.listeners[0].close()
        assert "has ended" in await asyncio.wait_for(listening, 20)
    assert (heard[0].event, heard[0].host, heard[0].pid, heard[0].gpus) == ("PEER_DEAD", "10.0.0.4", 77, [1])
    assert server.heard == ["CLIENT PROTOCOL 2", "SET FORMAT json", "MONITOR lifecycle,trace"]


async def test_listening_that_is_cancelled_leaves_nobody_at_the_socket() -> None:
    async with ras_server(RasServer()) as server:
        where = ("127.0.0.1", server.port)
        listening = asyncio.create_task(ras.listen(Local("n"), sys.executable, os.getpid(), where, print, print))
        await until(lambda: server.listeners)
        listening.cancel()
        await until(lambda: not server.listeners)


async def test_a_ras_that_knows_no_monitor_says_so() -> None:
    async with ras_server(RasServer(since_monitor=False)) as server:
        why = await ras.listen(
            Local("n"), sys.executable, os.getpid(), ("127.0.0.1", server.port), print, print
        )  # fmt: skip
    assert why.startswith("ERROR: Unknown command MONITOR")


# --- a session that listens --------------------------------------------------------------------------------------


def watched(version: str = "2.32.3", port: int = 1) -> LocalSession:
    env, versions = {"NCCL_RAS_ADDR": f"127.0.0.1:{port}"}, {"nccl": version}
    pids = (os.getpid(), 4711)
    return local_session(*(process(rank, pid, versions=versions, env=env) for rank, pid in enumerate(pids)))


def follow(session: LocalSession, standing: bool) -> RasWatch:
    (asked, *_) = session.living()
    session.job_sources.events.follow(asked, standing=standing)
    return session.job_sources.events


def told(session: Session) -> list[tuple[str, str]]:
    return [(change.kind, change.text) for change in session.state.changes if "RAS" in change.text]


async def test_what_ras_notices_during_a_wait_is_told_and_kept() -> None:
    async with ras_server(RasServer()) as server:
        session = watched(port=server.port)
        watch = follow(session, standing=True)
        await until(lambda: server.listeners)
        for pid in (4711, 4712):
            server.tell("PEER_DEAD", known("10.0.0.4", pid), group="LIFECYCLE")
        server.tell("PEER_CONNECTING", unknown("10.0.0.9<1>"))
        await until(lambda: len(session.state.ras_events) == 3)
        follow(session, standing=True)
        assert told(session) == [("lost", "NCCL RAS gave up rank 1 and process 4712 on 10.0.0.4")]
        assert abs(session.state.ras_events[0].at - session.now()) < 20
        follow(session, standing=False)
        await until(lambda: not server.listeners)
    assert not watch.listening


async def test_nobody_is_listened_to_while_the_job_moves_or_where_ras_is_too_old() -> None:
    async with ras_server(RasServer()) as server:
        moving = watched(port=server.port)
        assert not follow(moving, standing=False).listening
        old = watched("2.28.9", server.port)
        watch = follow(old, standing=True)
        assert not watch.listening
        assert watch.why == "NCCL 2.28.9 cannot be listened to: RAS's MONITOR came with 2.29"
        moving.job_sources.events.follow(None, standing=True)
        assert not moving.job_sources.events.listening
    assert server.heard == []


async def test_a_socket_where_nobody_listens_is_told_once() -> None:
    session = watched(port=1)
    watch = follow(session, standing=True)
    await until(lambda: not watch.listening)
    follow(session, standing=True)
    assert not watch.listening, "not at once again"
    assert [kind for kind, _ in told(session)] == ["hangtop"]
    assert "refused" in watch.why


async def test_a_transport_that_fails_is_the_reason() -> None:
    class Cut(LocalSession):
        def transport(self, node: str) -> Transport:
            raise TransportError(f"{node}: lost")

    session = watched()
    session.__class__ = Cut
    watch = follow(session, standing=True)
    await until(lambda: not watch.listening)
    assert watch.why == "node1: lost"
