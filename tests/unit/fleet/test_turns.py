"""Whoever has something to say is heard, a few at a time, and nobody else waits for all of them."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from collectors.fleet.ssh.turns import AT_ONCE, event_loop

MANY = 5 * AT_ONCE + 3


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    """Connections on which something has been said."""
    made = [socket.socketpair() for _ in range(MANY)]
    for near, far in made:
        near.setblocking(False)
        far.send(b"x")
    yield made
    for near, far in made:
        near.close()
        far.close()


def turns_of(
    pairs: list[tuple[socket.socket, socket.socket]], hurried: Callable[[int], bool] = lambda _: False
) -> tuple[list[int], list[int]]:
    """Descriptors in the order in which they were heard, and how many had been at each turn of the loop and its end."""
    heard: list[int] = []
    turns: list[int] = []

    def hear(near: socket.socket) -> None:
        near.recv(10)
        heard.append(near.fileno())

    async def listen() -> None:
        loop = asyncio.get_running_loop()
        for near, _ in pairs:
            loop.add_reader(near, hear, near)
        while len(heard) < MANY:
            turns.append(len(heard))
            await asyncio.sleep(0)
        for near, _ in pairs:
            loop.remove_reader(near)

    with asyncio.Runner(loop_factory=lambda: event_loop(lambda: hurried(len(heard)))) as runner:
        runner.run(asyncio.wait_for(listen(), 10))
    return heard, [*turns, MANY]


def test_all_are_heard_in_turns_and_timers_in_between(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    heard, turns = turns_of(pairs)
    assert sorted(heard) == sorted(near.fileno() for near, _ in pairs)
    assert max(b - a for a, b in pairwise(turns)) <= AT_ONCE


def test_in_a_hurry_one_is_heard_at_a_time(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    _, turns = turns_of(pairs, lambda heard: heard >= AT_ONCE)
    assert max(b - a for a, b in pairwise(turns) if a >= AT_ONCE) == 1


def test_who_is_closed_while_waiting_is_not_called(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    heard: list[int] = []

    async def listen() -> None:
        loop = asyncio.get_running_loop()
        numbers = [near.fileno() for near, _ in pairs]

        def hear(number: int) -> None:
            os.read(number, 10)
            heard.append(number)
            for other in numbers:
                if other != number:
                    loop.remove_reader(other)

        for number in numbers:
            loop.add_reader(number, hear, number)
        await asyncio.sleep(0.05)
        loop.remove_reader(heard[0])

    with asyncio.Runner(loop_factory=event_loop) as runner:
        runner.run(asyncio.wait_for(listen(), 10))
    assert len(heard) == 1
