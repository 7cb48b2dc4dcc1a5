"""How long somebody takes from the alarm to the culprit's line, who presses the keys that the screen names at once.

What is measured is the screen: reading and finding the key is a person's own. Run: ``python -m benchmarks.newcomer``.
"""

from __future__ import annotations

import sys
import time

from benchmarks.loop import load
from benchmarks.report import FigureRow, report
from tests.support.newcomer import COMMAND, go
from tests.support.tmux import Tmux

RUNS = 3
HANGTOP = [sys.executable, "-c", "from hangtop.cli.main import main; main()"]


def main() -> None:
    """Walk the way some times, each from an alarm of its own."""
    before, taken = load(), []
    for _ in range(RUNS):
        with Tmux([*HANGTOP, *COMMAND]) as terminal:
            terminal.wait_for("HUNG", 90)
            began = time.perf_counter()
            way = go(terminal)
            taken.append(time.perf_counter() - began)
    report(
        "newcomer",
        [
            FigureRow(f"from the alarm to the culprit's line, {len(way.keys)} keys", "s", tuple(taken), 30.0),
            FigureRow("load of the machine before", "", (before,)),
        ],
    )


if __name__ == "__main__":
    main()
