"""Work in a thread, in short turns, which end with it."""

from __future__ import annotations

import asyncio
import sys
import threading
import time

import pytest

from hangtop.diagnosis.yielding import give_way
from hangtop.session import aside as module
from hangtop.session.aside import TURN, Aside


async def test_turns_are_short_until_the_last_of_it_is_done() -> None:
    usual, aside, go = sys.getswitchinterval(), Aside(), threading.Event()
    long = asyncio.ensure_future(aside(go.wait))
    assert await aside(sys.getswitchinterval) == pytest.approx(TURN)
    assert sys.getswitchinterval() == pytest.approx(TURN)
    go.set()
    assert await long
    assert sys.getswitchinterval() == pytest.approx(usual)


async def test_a_failure_is_the_callers_and_ends_the_turns() -> None:
    usual = sys.getswitchinterval()
    with pytest.raises(ZeroDivisionError):
        await Aside()(lambda: 1 // 0)
    assert sys.getswitchinterval() == pytest.approx(usual)


async def test_work_rests_after_a_key_where_it_gives_way_and_no_longer_than_it_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    naps: list[float] = []
    now = 100.0

    def sleep(seconds: float) -> None:
        nonlocal now
        naps.append(seconds)
        now += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "sleep", sleep)
    aside = Aside()
    await aside(give_way)
    assert naps == []
    assert not aside.held()
    aside.hold()
    assert aside.held()
    await aside(give_way)
    assert not aside.held()
    assert sum(naps) == pytest.approx(module.REST, abs=1.5 * module.NAP)
    naps.clear()

    def held_down() -> None:
        for _ in range(1000):
            aside.hold()
            give_way()

    await aside(held_down)
    assert sum(naps) == pytest.approx(module.RESTS, abs=1.5 * module.NAP)


async def test_who_is_not_aside_does_not_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _seconds: pytest.fail("it rested"))
    aside = Aside()
    aside.hold()
    give_way()
    await aside(lambda: None)


async def test_slices_on_the_loop_give_way_while_the_screen_is_waited_for_and_no_longer_than_they_may() -> None:
    aside = Aside()
    loop = asyncio.get_running_loop()
    rests = aside.rests(0.1)
    began = loop.time()
    await rests.give_way()
    assert loop.time() - began < module.REST
    aside.hold()
    await rests.give_way()
    assert not aside.held()

    async def held_down() -> None:
        while True:
            aside.hold()
            await asyncio.sleep(0.001)

    holding = asyncio.create_task(held_down())
    await asyncio.wait_for(rests.give_way(), 10)
    assert aside.held()
    await asyncio.wait_for(rests.give_way(), 10)
    holding.cancel()
