"""Mutated inputs without end over everything that reads remote bytes; not a measurement, and not in CI's time.

Run: ``python -m benchmarks.fuzz [INPUTS] [TARGET …]`` (1,000,000 over all targets by default), best under ``nice``.
Each target gets the same CPU time, so what reads fast reads many inputs. Those that fail are written to
``tests/fixtures/fuzz/TARGET``, where the tests run them from then on. Each run begins elsewhere.
"""

from __future__ import annotations

import random
import resource
import sys
import time
from collections import Counter

from tests.support.fuzz_targets import targets
from tests.support.fuzzing import Target, failure, keep, mutated

MEMORY = 4 << 30
"""Bytes of address space: what takes more fails with a MemoryError, and is kept as well."""
TURN = 0.25
"""Seconds that a target has before the next one is read."""
SAID_EVERY = 30.0


class FuzzRun:
    """A run over some targets: how many inputs each has had, and what failed."""

    def __init__(self, chosen: dict[str, Target]) -> None:
        self.chosen = chosen
        self.seed = random.SystemRandom().randrange(1 << 32)
        self.inputs: Counter[str] = Counter()
        self.failed: Counter[tuple[str, str]] = Counter()
        self._random = random.Random(self.seed)
        self._began = self._said = time.monotonic()

    def go(self, inputs: int) -> None:
        """Read so many inputs, in turns."""
        while True:
            for name, target in self.chosen.items():
                until = time.monotonic() + TURN
                while time.monotonic() < until:
                    self._one(name, target)
                if self.inputs.total() >= inputs:
                    return
                if time.monotonic() - self._said > SAID_EVERY:
                    self._said = time.monotonic()
                    print(self.summary(), flush=True)

    def summary(self) -> str:
        """One line."""
        total, seconds = self.inputs.total(), time.monotonic() - self._began
        return f"{total:,} inputs in {seconds:,.0f} s, {total / seconds:,.0f} a second, {self.failed.total()} failed"

    def _one(self, name: str, target: Target) -> None:
        found = failure(name, target, mutated(self._random, target))
        self.inputs[name] += 1
        if found is not None:
            kind = name, found.why[:60]
            self.failed[kind] += 1
            if self.failed[kind] <= 3:
                print(f"{name}: {found.why}\n  {keep(found)}", flush=True)


def main() -> None:
    """Run inputs in turns over the targets, say how far it has come, and what failed."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    inputs = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    every = targets()
    run = FuzzRun({name: every[name] for name in sys.argv[2:] or every})
    print(f"seed {run.seed}, {len(run.chosen)} targets", flush=True)
    run.go(inputs)
    for name in run.chosen:
        print(f"{run.inputs[name]:>12,} {name}")
    print(run.summary())
    raise SystemExit(bool(run.failed))


if __name__ == "__main__":
    main()
