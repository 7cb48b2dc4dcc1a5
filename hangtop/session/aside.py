"""Long work beside the event loop: in a thread, in turns so short that no key press is felt to wait.

Python hands its interpreter from one thread to another after 5 ms. A loop that waits for 2,048 connections gives it
away thousands of times a second, and would get it back 5 ms later each time: for as long as such a thread works,
nothing would move. With turns of a tenth of a millisecond the loop goes on as if alone on a slower machine. And
while a key press is on its way to the screen, or the screen is drawn, the work rests, where it can
(:mod:`hangtop.diagnosis.yielding`).
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from hangtop.diagnosis.yielding import giving_way

T = TypeVar("T")

TURN = 1e-4
"""Seconds."""
REST = 0.04
"""Seconds for which work rests from a key press or the beginning of a drawing on: until that is painted."""
RESTS = 3.0
"""Seconds that a piece of work rests in all: somebody who holds a key down must not keep it from ending."""
NAP = 0.002
"""Seconds of a rest in one go."""


class Rests:
    """The rests of one piece of work: as long as somebody waits for the screen, and no longer in all than it may."""

    def __init__(self, held: Callable[[], bool], seconds: float) -> None:
        self._held = held
        self._left = seconds

    def rest(self) -> None:
        """Rest, in a thread of its own."""
        while self._left > 0 and self._held():
            time.sleep(NAP)
            self._left -= NAP

    async def give_way(self) -> None:
        """Let the event loop do other things, and rest."""
        await asyncio.sleep(0)
        while self._left > 0 and self._held():
            began = time.monotonic()
            await asyncio.sleep(NAP)
            self._left -= time.monotonic() - began


class Aside:
    """Runs work in threads; the turns are short while any of it is under way."""

    def __init__(self) -> None:
        self._under_way = 0
        self._usual = 0.0
        self._until = 0.0
        """When work may go on, by the monotonic clock."""

    def hold(self) -> None:
        """Have work rest for a moment: a key was pressed, or the screen is about to be drawn."""
        self._until = time.monotonic() + REST

    def held(self) -> bool:
        """Whether that moment is not over."""
        return time.monotonic() < self._until

    async def __call__(self, work: Callable[[], T]) -> T:
        """Run ``work`` in a thread and return its result; to be awaited on one event loop."""
        if self._under_way == 0:
            self._usual = sys.getswitchinterval()
            sys.setswitchinterval(TURN)
        self._under_way += 1
        try:
            return await asyncio.to_thread(self._with_rests, work)
        finally:
            self._under_way -= 1
            if self._under_way == 0:
                sys.setswitchinterval(self._usual)

    def rests(self, seconds: float = RESTS) -> Rests:
        """For a piece of work that begins: it may rest for so long in all."""
        return Rests(self.held, seconds)

    def _with_rests(self, work: Callable[[], T]) -> T:
        with giving_way(self.rests().rest):
            return work()


aside = Aside()
