"""Running on for long: memory is flat, and no descriptor is more, however many looks were taken."""

from __future__ import annotations

import os
import time

from tests.faults.fault import Family, Outcome
from tests.faults.scene import Scene

fault = Family("soak")

SECONDS = float(os.environ.get("HX_SOAK", "60"))
"""For which it runs."""
INTERVAL = 0.1
WARM = 30.0
"""Seconds after which what is kept for a minute, and what is loaded late, is mostly there."""
FLAT = 12.0
"""MB by which memory may have grown from the middle to the end."""


@fault("ten looks a second, for long", "memory flat, no descriptor more")
def running_on(scene: Scene) -> Outcome:
    """Every look takes as many samples as any: so much of a day at one look a second has passed."""
    before = scene.before()
    with scene.watch("--interval", str(INTERVAL)) as watch:
        time.sleep(max(WARM, SECONDS / 2))
        watch.usage.begin()
        middle = watch.usage.memory()
        time.sleep(SECONDS / 2)
        more, grown = watch.usage.descriptors_grown, watch.usage.memory() - middle
        looks = sum(1 for _ in watch.found(scene.struck.name, r"^Tick\("))
        watch.end()
        flat = grown < FLAT and more <= 0
        told = "memory flat, no descriptor more" if flat else f"{grown:.0f} MB and {more} descriptors more"
        return Outcome(
            f"{told}: {looks} looks at each of {len(scene.nodes)} nodes in {SECONDS / 60:.0f} min",
            recovered=0.0, grown=max(0.0, grown), descriptors=max(0, more), left=scene.left(before),
        )  # fmt: skip
