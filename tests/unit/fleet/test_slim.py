"""What all connections have alike is held once, never a secret, and what was let go of is as it was when it is set."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from collectors.fleet.ssh.slim import Bell, come_back, compact
from collectors.fleet.ssh.thin import ThinChannel, ThinConnection
from tests.support.ssh_server import Host
from tests.unit.fleet.test_thin import connected


class Thing:
    def __init__(self, number: int, word: str, secret: str) -> None:
        self._number = number
        self._username = word
        self._password = secret
        self._list: list[int] = []
        self._none = None


def test_what_is_alike_stands_once_and_what_is_set_again_is_the_object_s_own() -> None:
    first, second, third = Thing(1, "ada", "secret"), Thing(1, "ada", "secret"), Thing(2, "bob", "other")
    for thing in (first, second, third):
        compact(thing)
    assert set(vars(second)) == {"_password", "_list"}
    assert (second._number, second._username, second._password, second._none) == (1, "ada", "secret", None)
    assert (third._number, third._username, third._password) == (2, "bob", "other")
    second._number = 7
    assert (first._number, second._number, third._number) == (1, 7, 2)
    assert first._list is not second._list
    assert "_password" not in vars(Thing)


def test_true_is_not_taken_for_one() -> None:
    class Flag:
        def __init__(self, value: object) -> None:
            self._value = value

    first, second = Flag(1), Flag(True)
    compact(first)
    compact(second)
    assert first._value is not True
    assert second._value is True


async def test_connections_share_what_only_sessions_read(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with connected(tmp_path, Host()) as (_, first), connected(tmp_path / "other", Host()) as (node, second):
        assert first._options is second._options
        assert first._logger is second._logger  # nothing of what it is told is written
        assert vars(first._owner)["_passwords"] is vars(second._owner)["_passwords"]  # both are in: none is tried now
        assert len(vars(second)) < 64
        assert sys.getsizeof(vars(second)) < 2000
        assert vars(ThinConnection).get("_password") is None
        assert not {"_session_id", "_host"} & vars(ThinConnection).keys()
        assert (await node.run(["true"])).status == 0


class Lists:
    __getattr__ = come_back

    def __init__(self) -> None:
        self._tasks: set[int] = set()
        self._recv_buf: list[int] = []
        self._env: dict[str, str] = {"A": "b"}
        self._own: list[int] = []


def test_what_was_let_go_of_empty_comes_back_empty_and_is_the_object_s_own() -> None:
    first, second = Lists(), Lists()
    compact(first)
    compact(second)
    assert set(vars(first)) == {"_env", "_own"}
    first._tasks.add(1)
    first._recv_buf.append(2)
    assert (first._tasks, first._recv_buf) == ({1}, [2])
    assert (second._tasks, second._recv_buf) == (set(), [])
    with pytest.raises(AttributeError):
        first._nothing_of_this_name  # type: ignore[attr-defined]  # noqa: B018


async def test_a_channel_holds_little_and_works_on(tmp_path: Path) -> None:
    async with connected(tmp_path, Host()) as (node, connection):
        said: list[bytes] = []
        process = await node.start(["cat"], on_stdout=said.append, on_stderr=said.append)
        (channel,) = connection._channels.values()
        assert type(channel) is ThinChannel
        assert len(vars(channel)) < 20
        process.write(b"hello\n")
        process.write_eof()
        assert await process.wait() == 0
        assert b"".join(said) == b"hello\n"
        assert (await node.run(["echo", "again"])).stdout == b"again\n"


async def test_who_waits_for_the_end_of_a_connection_is_told(tmp_path: Path) -> None:
    async with connected(tmp_path, Host()) as (_, connection):
        assert not connection.is_closed()
        waiting = asyncio.create_task(connection.wait_closed())
        await asyncio.sleep(0)
        connection.close()
        await asyncio.wait_for(waiting, 10)
        assert connection.is_closed()


async def test_a_bell_wakes_all_who_wait_and_who_comes_later() -> None:
    bell = Bell()
    waiting = [asyncio.create_task(bell.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(one.done() for one in waiting)
    waiting[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
    bell.set()
    assert await asyncio.gather(*waiting[1:]) == [True, True]
    assert bell.is_set()
    assert await bell.wait()
    bell.clear()
    later = asyncio.create_task(bell.wait())
    await asyncio.sleep(0)
    assert not later.done()
    bell.set()
    assert await later
