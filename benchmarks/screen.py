"""What drawing costs: CPU of a tick, and from a key to the repaint, for 64 and 2,048 nodes × 8 GPUs.

The application runs whole but without a terminal; a session on paper is fed as agents would feed it (all nodes once a
second, spread over the second), so that keys compete with samples and ticks for the one loop. Run:
``python -m benchmarks.screen [NODES …]``.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from textual.pilot import Pilot

from benchmarks.report import Row, report
from tests.support.screens import Paper, PaperSession
from tui.app import HangtopApp, ScreenOptions

SIZE = (200, 60)
PANELS = {"overview": "1", "ranks": "2", "gpus": "3", "fabric": "4", "nodes": "6"}
KEYS = ("down", "down", "pagedown", "pageup", "right", "left", "up", "up")
"""A round that ends where it began, so that every key has something to repaint."""
PRESSES = 64
"""Keys pressed on each panel."""
TICKS = 5
SLICES = 256
"""Parts of a second in which nodes answer."""


class Painted:
    """Tells when the next paint is done."""

    def __init__(self, app: HangtopApp) -> None:
        self._done = asyncio.Event()
        self.worst = 0.0
        real: Callable[..., None] = app._display  # noqa: SLF001 (the one place through which every paint goes)

        def display(*arguments: object) -> None:
            real(*arguments)
            self._done.set()

        app._display = display  # type: ignore[method-assign, assignment]  # noqa: SLF001

    async def key(self, pilot: Pilot[None], key: str) -> float:
        """Seconds from a key to the paint after it."""
        self._done.clear()
        began = time.perf_counter()
        pilot.app.simulate_key(key)
        await asyncio.wait_for(self._done.wait(), 10)
        return time.perf_counter() - began


async def feed(paper: Paper, session: PaperSession, began: float) -> None:
    """Let every node send once a second, for ever."""
    tick = TICKS
    while True:
        tick += 1
        for part in range(SLICES):
            due = began + tick - TICKS - 1 + part / SLICES
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            paper.clock.now += 1 / SLICES
            for index in range(part, paper.nodes, SLICES):
                paper.feed(session, index, tick)


async def stalls(found: list[float]) -> None:
    """How late the loop is, every 5 ms."""
    while True:
        before = time.perf_counter()
        await asyncio.sleep(0.005)
        found.append(time.perf_counter() - before - 0.005)


async def measure(nodes: int) -> list[Row]:
    """All figures for one size."""
    paper = Paper(nodes=nodes, gpus=8, slow=11)
    session = paper.session(ticks=TICKS)
    app = HangtopApp(session, ScreenOptions(theme="hangtop", refresh=1.0))
    rows: list[Row] = []
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause(0.5)
        ticks = {name: await tick_cost(pilot, app, key) for name, key in PANELS.items()}
        painted, late = Painted(app), list[float]()
        tasks = [asyncio.create_task(feed(paper, session, time.monotonic())), asyncio.create_task(stalls(late))]
        presses: list[float] = []
        cpu, began = time.process_time(), time.monotonic()
        for key in PANELS.values():
            await pilot.press(key)
            for number in range(PRESSES):
                await asyncio.sleep(random.uniform(0.02, 0.12))
                presses.append(await painted.key(pilot, KEYS[number % len(KEYS)]))
        share = (time.process_time() - cpu) / (time.monotonic() - began)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    ms = sorted(1000 * value for value in presses)
    size = f"{nodes:,} nodes × 8 GPUs"
    big = nodes > 64
    for name, cost in ticks.items():
        floor = {"overview": "10; 24 ms", "ranks": "8; 17 ms", "gpus": "8; 17 ms"}.get(name, "")
        rows.append(Row(f"{size}: a tick of {name}", "ms", tuple(1000 * value for value in cost), None, floor))
    rows.append(Row(f"{size}: key to repaint, all", "ms", tuple(ms), None, "4 / worst 9 ms"))
    rows.append(Row(f"{size}: key to repaint, p99", "ms", (ms[int(len(ms) * 0.99)],), 30.0, "worst 7 ms"))
    rows.append(Row(f"{size}: worst stall of the loop", "ms", (1000 * max(late),), 50.0 if big else None))
    rows.append(Row(f"{size}: CPU with samples made up here", "% of a core", (100 * share,)))
    rows.append(Row(f"{size}: memory", "MB", (resident(),), 250.0 if big else None))
    return rows


async def tick_cost(pilot: Pilot[None], app: HangtopApp, key: str) -> list[float]:
    """CPU seconds of single ticks with their paint, everything having changed."""
    await pilot.press(key)
    await pilot.pause(0.2)
    costs = []
    for _ in range(8):
        session = app.session
        assert isinstance(session, PaperSession)
        session.clock.now += 1
        for node in session.state.nodes.values():
            node.seen_at = session.clock.now
            for rank in node.ranks.values():
                rank.looks.rotate(1)
            for gpu in node.gpus.values():
                gpu.looks.rotate(1)
        before = time.process_time()
        app.tick()
        await pilot.pause()
        costs.append(time.process_time() - before)
    return costs


def resident() -> float:
    """Megabytes of this process, the session's state included."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


def main() -> None:
    """Measure the sizes given, or 64 and 2,048."""
    sizes = [int(word) for word in sys.argv[1:]] or [64, 2048]
    rows = [row for size in sizes for row in asyncio.run(measure(size))]
    report("screen", rows)


if __name__ == "__main__":
    main()
