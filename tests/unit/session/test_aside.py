"""Work in a thread, in short turns, which end with it."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

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
