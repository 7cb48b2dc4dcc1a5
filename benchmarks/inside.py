"""What ``hangtop.inside`` costs a training process: a call of ``step()`` and ``phase()``, a step with hooks, memory.

    python -m benchmarks.inside [--calls 100000] [--rounds 20]

Each round takes the CPU time of so many calls in one go; memory is what the process has for itself alone
(Private_Dirty), before ``start()`` and after it and a thousand steps, in fresh processes with torch imported and, as
after an installation, compiled files at hand. "By hooks" is what torch's own hooks call in a step: into the forward,
out of it, into the optimizer, out of it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from benchmarks.report import FigureRow, report

MEMORY = """
import sys
def private():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Private_Dirty"))
import torch
before = private()
import hangtop.inside
hangtop.inside.start(quiet=True)
for number in range(1000):
    hangtop.inside.step(number)
    hangtop.inside.phase("data")
print(private() - before)
"""
PROCESSES = 5


def timed(call: Callable[[], object], calls: int, rounds: int) -> tuple[float, ...]:
    """Nanoseconds of one call, by round, the loop's own taken off."""
    figures = []
    for _ in range(rounds):
        began = time.thread_time_ns()
        for _ in range(calls):
            pass
        between = time.thread_time_ns()
        for _ in range(calls):
            call()
        figures.append((time.thread_time_ns() - between - (between - began)) / calls)
    return tuple(figures)


def memory() -> tuple[float, ...]:
    """Megabytes that it adds to fresh processes which have torch; one more compiles for them."""
    env = os.environ | {"RANK": "0", "WORLD_SIZE": "1"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as compiled:
        env["PYTHONPYCACHEPREFIX"] = compiled
        told = [
            subprocess.run([sys.executable, "-c", MEMORY], env=env, capture_output=True, check=True, text=True).stdout
            for _ in range(PROCESSES + 1)
        ]
    return tuple(int(one) * 1024 / 1e6 for one in told[1:])


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=100_000)
    options.add_argument("--rounds", type=int, default=20)
    given = options.parse_args()
    import torch

    import hangtop.inside
    from hangtop.inside import hooks

    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    hangtop.inside.follow(model)

    def by_hooks() -> None:
        hooks.entering(model, ())
        hooks.left(model, (), None)
        hooks.stepping(optimizer, (), {})
        hooks.stepped(optimizer, (), {})

    calls, rounds = given.calls, given.rounds
    off = timed(lambda: hangtop.inside.step(5), calls, rounds)
    hangtop.inside.start(tracer=False, recorder=False, automatic=False, quiet=True)
    numbered = timed(lambda: hangtop.inside.step(5), calls, rounds)
    counted = timed(hangtop.inside.step, calls, rounds)
    phased = timed(lambda: hangtop.inside.phase("data"), calls, rounds)
    hangtop.inside.steps.telling.by_hand = False
    whole = timed(by_hooks, calls, rounds)
    report(
        "inside",
        [
            FigureRow("step(n)", "µs", tuple(figure / 1e3 for figure in numbered), 1.0, "0.23"),
            FigureRow("step()", "µs", tuple(figure / 1e3 for figure in counted), 1.0, "0.23"),
            FigureRow("phase(name)", "µs", tuple(figure / 1e3 for figure in phased), 1.0, "0.23"),
            FigureRow("step(n) without start()", "µs", tuple(figure / 1e3 for figure in off)),
            FigureRow(
                "a step by hooks: its end and four phases", "µs", tuple(figure / 1e3 for figure in whole), 1.0, "0.2"
            ),
            FigureRow("memory", "MB", memory(), 1.0, "0.02"),
        ],
    )


if __name__ == "__main__":
    main()
