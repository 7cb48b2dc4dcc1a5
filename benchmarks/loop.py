"""Shared measurements: stalls of the event loop, the time from a key to its repaint, memory.

Each size is measured in its own process (:func:`apart`), without the memory of the size before.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from textual._compositor import CompositorUpdate
from textual.app import App
from textual.pilot import Pilot

from benchmarks.report import FigureRow
from tui.app import HangtopApp

SIZE = (200, 60)
"""Size of the terminal, in cells."""
PANELS = {"overview": "1", "ranks": "2", "gpus": "3", "fabric": "4", "nodes": "6"}
KEYS = ("down", "up", "pagedown", "pageup", "right", "left", "down", "up")
"""A round trip of the cursor, so that every key has something to repaint."""
OVERVIEW_KEYS = tuple({"right": "l", "left": "h"}.get(key, key) for key in KEYS)
"""The same round trip with letters instead of left and right arrows."""

ROUNDS = 3
"""Round trips of a message through the application, the screen and a refresh before a key counts as done."""
LONGEST = 8.0
"""Most seconds of key presses per panel, for a busy machine."""


class Stalls:
    """The longest time that the loop is blocked, in CPU time of all threads of this process.

    CPU of other processes does not count; a thread of ours that blocks the loop does.
    """

    def __init__(self) -> None:
        self.late: list[float] = []
        self._task = asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        while True:
            began = time.process_time()
            await asyncio.sleep(0.005)
            self.late.append(time.process_time() - began)

    def worst(self) -> float:
        """The longest stall since the last call, in milliseconds."""
        late, self.late = self.late, []
        return max(late, default=0.0) * 1000

    def stop(self) -> None:
        """Stop the measurement."""
        self._task.cancel()


class Press(NamedTuple):
    """One key and its paint, in milliseconds."""

    taken: float
    cpu: float
    """CPU time of this process, without that of other processes."""


class Painted:
    """Detects the next paint.

    Without a terminal, Textual does not make the escape sequences; this class makes them, so that they count.
    """

    def __init__(self, app: HangtopApp) -> None:
        self._done = asyncio.Event()
        self._shown = False
        real: Callable[..., None] = app._display  # noqa: SLF001 (every paint goes through it)

        def display(screen: object, renderable: object) -> None:
            real(screen, renderable)
            if isinstance(renderable, CompositorUpdate):
                renderable.render_segments(app.console)
            self._shown = True
            self._done.set()

        app._display = display  # type: ignore[method-assign]  # noqa: SLF001

    async def key(self, pilot: Pilot[None], key: str) -> Press | None:
        """The time from a key to its paint; None for a key without anything to repaint."""
        self._done.clear()
        self._shown = False
        app = pilot.app
        began, cpu = time.perf_counter(), time.process_time()
        app.simulate_key(key)
        self._when_idle(app, ROUNDS)
        await asyncio.wait_for(self._done.wait(), 10)
        press = Press(1000 * (time.perf_counter() - began), 1000 * (time.process_time() - cpu))
        return press if self._shown else None

    def _when_idle(self, app: App[None], rounds: int) -> None:
        """End the wait once application and screen have handled the key and its consequences."""
        if rounds:
            app.call_later(app.screen.call_after_refresh, self._when_idle, app, rounds - 1)
        else:
            self._done.set()

    async def keys(self, pilot: Pilot[None], presses: int, keys: Sequence[str] = KEYS) -> list[Press]:
        """The times of many keys, pressed in quick succession."""
        times: list[Press] = []
        end = time.monotonic() + LONGEST
        for number in range(presses):
            await asyncio.sleep(random.uniform(0.02, 0.12))
            press = await self.key(pilot, keys[number % len(keys)])
            if press is not None:
                times.append(press)
            if time.monotonic() > end:
                break
        return times


def key_rows(size: str, presses: Sequence[Press], floor: str) -> list[FigureRow]:
    """The rows of the report on keys."""
    taken = [press.taken for press in presses]
    return [
        FigureRow(f"{size}: key to repaint", "ms", tuple(taken), None, floor),
        FigureRow(f"{size}: key to repaint, p99", "ms", (share(taken, 0.99),), 30.0, floor),
        FigureRow(
            f"{size}: the same in this process's CPU time", "ms", (share([press.cpu for press in presses], 0.99),)
        ),
    ]


def resident() -> float:
    """Resident memory of this process, in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def share(values: Sequence[float], of: float) -> float:
    """The quantile ``of`` (0 to 1) of the values."""
    return sorted(values)[min(len(values) - 1, int(len(values) * of))]


def apart(measure: Callable[[int], Awaitable[list[FigureRow]]], sizes: Sequence[int]) -> list[FigureRow]:
    """Measure each size in a fresh process."""
    rows: list[FigureRow] = []
    for size in sizes:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            rows += pool.apply(_run, (measure, size))
    return rows


def _run(measure: Callable[[int], Awaitable[list[FigureRow]]], size: int) -> list[FigureRow]:
    async def whole() -> list[FigureRow]:
        return await measure(size)

    with asyncio.Runner() as runner:
        return runner.run(whole())
