"""What drawing costs: CPU of a tick, and from a key to the repaint, for 64 and 2,048 nodes × 8 GPUs.

The application runs whole but without a terminal; a session on paper is fed as agents would feed it (all nodes once a
second, spread over the second), so that keys compete with samples and ticks for the one loop. Run:
``python -m benchmarks.screen [NODES …]``.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import sys
import time

from textual.pilot import Pilot

from benchmarks.loop import KEYS, OVERVIEW_KEYS, PANELS, SIZE, Painted, Press, Stalls, apart, key_rows, load, resident
from benchmarks.report import FigureRow, report
from tests.support.screens import Paper, PaperSession
from tui.app import HangtopApp, ScreenOptions

PRESSES = 64
"""Keys pressed on each panel."""
TICKS = 5
"""Seconds that were watched before."""
ROUNDS = 8
"""Ticks whose cost is measured on each panel."""
SLICES = 256
"""Parts of a second in which nodes answer."""


async def feed(paper: Paper, session: PaperSession, began: float) -> None:
    """Let every node send once a second, for ever."""
    for turn in itertools.count():
        for part in range(SLICES):
            due = began + turn + part / SLICES
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            paper.clock.now += 1 / SLICES
            for index in range(part, paper.nodes, SLICES):
                paper.feed(session, index, TICKS + ROUNDS + turn)


async def measure(nodes: int) -> list[FigureRow]:
    """All figures for one size."""
    before = load()
    paper = Paper(nodes=nodes, gpus=8, slow=11)
    session = paper.session(ticks=TICKS)
    app = HangtopApp(session, ScreenOptions(theme="hangtop", refresh=1.0))
    rows: list[FigureRow] = []
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause(0.5)
        ticks = {name: await tick_cost(pilot, app, paper, key) for name, key in PANELS.items()}
        painted, late = Painted(app), Stalls()
        feeding = asyncio.create_task(feed(paper, session, time.monotonic()))
        presses: list[Press] = []
        cpu, began = time.process_time(), time.monotonic()
        for name, key in PANELS.items():
            await painted.key(pilot, key)
            presses += await painted.keys(pilot, PRESSES, OVERVIEW_KEYS if name == "overview" else KEYS)
        busy = (time.process_time() - cpu) / (time.monotonic() - began)
        worst = late.worst()
        late.stop()
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
    size = f"{nodes:,} nodes × 8 GPUs"
    big = nodes > 64
    for name, cost in ticks.items():
        floor = {"overview": "10; 24 ms", "ranks": "8; 17 ms", "gpus": "8; 17 ms"}.get(name, "")
        rows.append(FigureRow(f"{size}: a tick of {name}", "ms", tuple(1000 * value for value in cost), None, floor))
    rows += key_rows(size, presses, "4 / worst 9 ms")
    rows.append(FigureRow(f"{size}: worst stall of the loop", "ms", (worst,), 50.0 if big else None))
    rows.append(FigureRow(f"{size}: CPU with samples made up here", "% of a core", (100 * busy,)))
    rows.append(FigureRow(f"{size}: memory", "MB", (resident(),), 250.0 if big else None))
    rows.append(FigureRow(f"{size}: load of the machine before", "", (before,)))
    return rows


async def tick_cost(pilot: Pilot[None], app: HangtopApp, paper: Paper, key: str) -> list[float]:
    """CPU seconds of single ticks with their paint, everything having changed."""
    await pilot.press(key)
    await pilot.pause(0.2)
    costs = []
    for number in range(ROUNDS):
        session = app.session
        assert isinstance(session, PaperSession)
        session.clock.now += 1
        for index in range(paper.nodes):
            paper.feed(session, index, TICKS + number)
        gc.freeze()  # what came in one go here comes over a second there, and is collected between ticks
        before = time.process_time()
        app.tick()
        await pilot.pause()
        costs.append(time.process_time() - before)
    return costs


def main() -> None:
    """Measure the sizes given, or 64 and 2,048."""
    sizes = [int(word) for word in sys.argv[1:]] or [64, 2048]
    report("screen", apart(measure, sizes))


if __name__ == "__main__":
    main()
