"""What the line of time costs: the whole application over 64 simulated nodes, without and with it, in turns.

Without: no history is taken, no past is kept, no chart is drawn. Both are measured in one process and run, in turns,
so that whatever else the machine does falls on both. Run: ``python -m benchmarks.charts [NODES]``.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator

from benchmarks.loop import SIZE, apart, load
from benchmarks.report import FigureRow, report
from benchmarks.simulated_nodes import simulated_nodes
from hangtop.session.live import live_session
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from tui.app import HangtopApp, ScreenOptions
from tui.panels.overview import OverviewPanel

SETTLE = 15.0
"""Seconds after the start in which nothing is measured."""
TURN = 20.0
"""Seconds of each turn, …"""
TURNS = 4
"""… and turns of each kind."""
BUDGET = 10.0


async def measure(nodes: int) -> list[FigureRow]:
    """CPU of both kinds, in per cent of a core."""
    before = load()
    with simulated_nodes(nodes) as simulated:
        options = SessionOptions(targets=(f"sim[0000-{nodes - 1:04d}]",), ssh_config=simulated.ssh_config)
        session = live_session(options)
        app = HangtopApp(session, ScreenOptions(theme="hangtop"))
        async with app.run_test(size=SIZE):
            await asyncio.sleep(SETTLE)
            switch = Switch(app, session)
            spent: dict[bool, list[float]] = {False: [], True: []}
            for turn in range(2 * TURNS):
                switch.turn(on=bool(turn % 2))
                await asyncio.sleep(1.0)
                cpu, began = time.process_time(), time.perf_counter()
                await asyncio.sleep(TURN)
                spent[bool(turn % 2)].append(100 * (time.process_time() - cpu) / (time.perf_counter() - began))
            switch.turn(on=True)
    size = f"whole application, {nodes:,} nodes × 8 GPUs"
    return [
        FigureRow(f"{size}: CPU without the line of time", "% of a core", tuple(spent[False])),
        FigureRow(f"{size}: CPU with it", "% of a core", tuple(spent[True]), BUDGET if nodes == 64 else None),
        FigureRow(f"{size}: load of the machine before", "", (before,)),
    ]


class Switch:
    """Takes the line of time out of a running application, and puts it back."""

    def __init__(self, app: HangtopApp, session: Session) -> None:
        panel = app.stage.panels["overview"]
        assert isinstance(panel, OverviewPanel)
        self._chart, self._session = panel.time, session
        self._feed, self._taking, self._past = panel.time.feed, session.history.taking, session.keeping.past

    def turn(self, *, on: bool) -> None:
        """Let it work or not."""
        self._chart.feed = self._feed if on else _nothing  # type: ignore[method-assign]
        self._session.history.taking = self._taking if on else _none  # type: ignore[method-assign, assignment]
        self._session.keeping.past = self._past if on else None


def _nothing() -> None:
    """Draw nothing."""


def _none(*_: object) -> Iterator[None]:
    return iter(())


def main() -> None:
    """Measure 64 nodes, or as many as are asked for."""
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    report("charts", apart(measure, [nodes]))


if __name__ == "__main__":
    main()
