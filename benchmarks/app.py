"""The whole application: the real screen, with SSH connections to simulated nodes in another process.

For 64 nodes × 8 GPUs at 1 Hz, and 2,048 nodes that are read every 4 s each: the time until the first node and all nodes
are live, the cost without key presses, and the time from a key to its repaint. Run: ``python -m benchmarks.app
[NODES …]``; 2,048 nodes take about two minutes.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field

from textual.pilot import Pilot

from benchmarks.loop import KEYS, OVERVIEW_KEYS, PANELS, SIZE, Painted, Press, Stalls, apart, key_rows, resident
from benchmarks.report import FigureRow, report
from benchmarks.simulated_nodes import simulated_nodes
from collectors.fleet.sink import LinkChange
from hangtop.session.live import LiveSession
from hangtop.session.options import SessionOptions, usual_interval
from hangtop.session.session import Session
from tui.app import HangtopApp, ScreenOptions

PRESSES = 24
"""Key presses per panel."""
SETTLE = 10.0
"""Seconds from the last live node to the measurement."""
WATCH = 20.0
"""Seconds without key presses, first for the CPU, then again for the stalls, whose detection costs CPU."""
LONGEST = 60.0
"""Most seconds to wait for all nodes; then the live ones are measured. A busy machine needs minutes for 2,048."""
LIVE = {64: 2.0}
CPU = {64: 10.0, 2048: 60.0}
FLOORS = {64: "4 %", 2048: "streams 20 to 30 %, heat map 2.5 %"}


@dataclass
class Coming:
    """Times at which nodes became live, in seconds since :attr:`began`."""

    wanted: int
    began: float = field(default_factory=time.perf_counter)
    at: dict[str, float] = field(default_factory=dict)
    all: asyncio.Event = field(default_factory=asyncio.Event)

    def watch(self, session: Session) -> None:
        """Observe the session's link changes."""
        tell = session.link

        def link(change: LinkChange) -> None:
            tell(change)
            if change.link == "live":
                self.at.setdefault(change.node, time.perf_counter() - self.began)
                if len(self.at) == self.wanted:
                    self.all.set()

        session.link = link  # type: ignore[method-assign]


async def measure(nodes: int) -> list[FigureRow]:
    """All figures for one number of nodes."""
    with simulated_nodes(nodes) as simulated:
        options = SessionOptions(targets=(f"sim[0000-{nodes - 1:04d}]",), ssh_config=simulated.ssh_config)
        coming = Coming(nodes)
        session = LiveSession(options)
        coming.watch(session)
        app = HangtopApp(session, ScreenOptions(theme="hangtop"))
        async with app.run_test(size=SIZE) as pilot:
            painted, stalls = Painted(app), Stalls()
            with suppress(TimeoutError):
                await asyncio.wait_for(coming.all.wait(), LONGEST)
            connecting = stalls.worst()
            await asyncio.sleep(SETTLE)
            stalls.stop()
            quiet = await at_rest()
            presses, busy = await at_work(pilot, painted)
            memory = resident()
    return rows(nodes, coming, (connecting, memory), quiet, (presses, busy))


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost over a time: CPU in per cent of a core, and the longest stall in milliseconds."""

    cpu: float
    stall: float


async def at_rest() -> Cost:
    """The cost of the overview without key presses."""
    cpu, began = time.process_time(), time.perf_counter()
    await asyncio.sleep(WATCH)
    spent = 100 * (time.process_time() - cpu) / (time.perf_counter() - began)
    stalls = Stalls()
    await asyncio.sleep(WATCH)
    stalls.stop()
    return Cost(spent, stalls.worst())


async def at_work(pilot: Pilot[None], painted: Painted) -> tuple[list[Press], Cost]:
    """Fast key presses on all panels, and their cost."""
    stalls = Stalls()
    cpu, began = time.process_time(), time.perf_counter()
    presses: list[Press] = []
    for name, key in PANELS.items():
        await painted.key(pilot, key)
        presses += await painted.keys(pilot, PRESSES, OVERVIEW_KEYS if name == "overview" else KEYS)
    stalls.stop()
    return presses, Cost(100 * (time.process_time() - cpu) / (time.perf_counter() - began), stalls.worst())


def rows(
    nodes: int, coming: Coming, said: tuple[float, float], quiet: Cost, busy: tuple[list[Press], Cost]
) -> list[FigureRow]:
    """The rows of the report."""
    connecting, memory = said
    presses, work = busy
    size, big = f"whole application, {nodes:,} nodes × 8 GPUs, read every {usual_interval(nodes):g} s", nodes > 64
    times = sorted(coming.at.values())
    came = FigureRow(f"{size}: all live", "s", (times[-1],), LIVE.get(nodes), "30 s" if big else "1.2 s")
    if len(times) < nodes:
        came = FigureRow(f"{size}: live after {LONGEST:.0f} s, and measured", "nodes", (len(times),))
    return [
        FigureRow(f"{size}: first node live", "s", (times[0],), 0.6, "0.28 s"),
        came,
        FigureRow(f"{size}: worst stall while connecting", "ms", (connecting,), 50.0),
        FigureRow(f"{size}: CPU", "% of a core", (quiet.cpu,), CPU.get(nodes), FLOORS.get(nodes, "")),
        FigureRow(f"{size}: CPU while keys are pressed", "% of a core", (work.cpu,)),
        FigureRow(f"{size}: memory", "MB", (memory,), 400.0 if big else 250.0),
        FigureRow(f"{size}: worst stall", "ms", (quiet.stall,), 50.0),
        FigureRow(f"{size}: worst stall while keys are pressed", "ms", (work.stall,), 50.0),
        *key_rows(size, presses, "median 6, p95 18 ms"),
    ]


def main() -> None:
    """Measure the given sizes, or 64 and 2,048, each into its own file."""
    for size in [int(word) for word in sys.argv[1:]] or [64, 2048]:
        report(f"app_{size}", apart(measure, [size]))


if __name__ == "__main__":
    main()
