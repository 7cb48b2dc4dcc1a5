"""What 64 and 2,048 streaming nodes cost here: the fleet and its decoding alone, without session and screen.

python -m benchmarks.streams [NODES …]
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import psutil

from benchmarks.loop import Stalls, apart
from benchmarks.report import FigureRow, report
from benchmarks.simulated_nodes import simulated_nodes
from collectors.fleet.fleet import Fleet, FleetOptions
from collectors.fleet.sink import LinkChange
from collectors.fleet.targets.chosen import resolve
from collectors.samples.control import Settings
from tests.support.ssh_server import Person

SECONDS = 15.0
ROUNDS = 3
SETTLE = 3.0
LIVE = {64: (2.0, "1.0 to 1.2 s"), 2048: (None, "30 s")}
FLOORS = {64: "4 % of a core", 2048: "20 to 30 % of a core (1 to 5 KB a second)"}
BUDGETS = {64: 10.0, 2048: 60.0}
"""Per cent of a core, for the whole application."""


class Counter:
    """A sink that counts."""

    def __init__(self) -> None:
        self.live: set[str] = set()
        self.samples_taken = 0
        self.bytes = 0
        self.bad = 0
        self.all_live = asyncio.Event()
        self.wanted = 0

    def samples(self, _node: str, samples: Sequence[NamedTuple], size: int) -> None:
        """Count samples."""
        self.samples_taken += len(samples)
        self.bytes += size

    def link(self, change: LinkChange) -> None:
        """Count nodes that are live."""
        (self.live.add if change.link == "live" else self.live.discard)(change.node)
        if len(self.live) == self.wanted:
            self.all_live.set()

    def bad_line(self, *_said: str) -> None:
        """Count what must not be."""
        self.bad += 1


async def measure(count: int) -> list[FigureRow]:
    """Connect, settle, measure."""
    with simulated_nodes(count) as simulated:
        counter = Counter()
        counter.wanted = count
        options = FleetOptions(Settings(1.0, 0.0, None, [], [], []), simulated.ssh_config)
        fleet = Fleet(resolve([f"sim[0000-{count - 1:04d}]"]), sink=counter, asker=Person(), options=options)
        await fleet.prepare()
        me = psutil.Process()
        stalls = Stalls()
        began, cpu = time.perf_counter(), time.process_time()
        await fleet.start()
        await asyncio.wait_for(counter.all_live.wait(), 300)
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        connecting = stalls.worst()
        gc.collect()
        gc.freeze()
        await asyncio.sleep(SETTLE)
        shares, worst, sizes, rates = [], [], [], []
        for _ in range(ROUNDS):
            stalls.worst()
            before, at, taken, came = time.process_time(), time.perf_counter(), counter.samples_taken, counter.bytes
            await asyncio.sleep(SECONDS)
            passed = time.perf_counter() - at
            shares.append((time.process_time() - before) / passed * 100)
            worst.append(stalls.worst())
            sizes.append((counter.bytes - came) / passed / count / 1000)
            rates.append((counter.samples_taken - taken) / passed / count)
        memory = me.memory_info().rss / 2**20
        stalls.stop()
        await fleet.close()
    if counter.bad:
        raise SystemExit(f"{counter.bad} bad lines: the simulated nodes do not speak as agents do")
    gc.unfreeze()
    nodes = f"{count} nodes"
    return [
        FigureRow(f"{nodes}: all live after", "s", (took,), *LIVE.get(count, ())),
        FigureRow(f"{nodes}: client CPU a node until live", "ms", (cpu / count * 1000,)),
        FigureRow(f"{nodes}: worst loop stall while connecting", "ms", (connecting,), 50.0, "30 ms at 16 at a time"),
        FigureRow(f"{nodes}: CPU", "% of a core", tuple(shares), BUDGETS.get(count), FLOORS.get(count, "")),
        FigureRow(f"{nodes}: worst loop stall", "ms", tuple(worst), 50.0, "23 ms"),
        FigureRow(f"{nodes}: memory of the process", "MiB", (memory,), 250.0, "60 MB"),
        FigureRow(f"{nodes}: bytes a node and second", "KB", tuple(sizes)),
        FigureRow(f"{nodes}: samples a node and second", "", tuple(rates)),
    ]


def main() -> None:
    """Measure and report."""
    counts = [int(word) for word in sys.argv[1:]] or [64, 2048]
    report("streams", apart(measure, counts))


if __name__ == "__main__":
    main()
