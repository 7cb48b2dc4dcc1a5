"""Long work in a thread beside the event loop, in turns so short that no key press is felt to wait.

Python hands its interpreter from one thread to another after 5 ms. A loop that waits for 2,048 connections gives it
away thousands of times a second, and would get it back 5 ms later each time: for as long as such a thread works,
nothing would move. With turns of a tenth of a millisecond the loop goes on as if alone on a slower machine.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

TURN = 1e-4
"""Seconds."""


class ThreadRunner:
    """Runs work in threads; the turns are short while any of it is under way."""

    def __init__(self) -> None:
        self._under_way = 0
        self._usual = 0.0

    async def __call__(self, work: Callable[[], T]) -> T:
        """Run ``work`` in a thread and return its result; to be awaited on one event loop."""
        if self._under_way == 0:
            self._usual = sys.getswitchinterval()
            sys.setswitchinterval(TURN)
        self._under_way += 1
        try:
            return await asyncio.to_thread(work)
        finally:
            self._under_way -= 1
            if self._under_way == 0:
                sys.setswitchinterval(self._usual)


run_in_thread = ThreadRunner()
