"""What a fault is: struck at the running tool, and what must come of it. Families register theirs by name."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.faults.scene import Scene

MEMORY = 160.0
"""MB by which no fault may make hangtop grow; 16 MiB of stream that wait to be decoded are tenfold as objects."""
KEYS = 10.0
"""Seconds after which a key has been answered, on a machine that plays all nodes and does other things, too."""
LEFT = 12.0
"""Seconds after its end until nothing of hangtop's is on a node."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a fault. Seconds are from when it struck; None for what it has none of."""

    said: str
    """In hangtop's own words."""
    recovered: float | None = None
    """Seconds from when the fault was over until all was well again."""
    grown: float = 0.0
    """MB by which hangtop's memory grew from before the fault to its greatest."""
    key: float | None = None
    """Seconds that the slowest key took to be seen on the screen."""
    left: tuple[str, ...] = ()
    """Command lines of what was left on nodes :data:`LEFT` seconds after hangtop had ended."""
    disturbed: tuple[str, ...] = ()
    """What befell nodes that were not struck."""


Play = Callable[["Scene"], Outcome]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, how it is played, and what must be said of it."""

    family: str
    name: str
    says: str
    """A regular expression that is found in what hangtop says."""
    play: Play
    recovers: bool
    """Whether all must be well again once the fault is over."""
    needs: str = ""
    """Program of this machine without which it cannot be played."""

    @property
    def missing(self) -> str:
        """Why it cannot be played here; empty when it can."""
        return f"this machine has no {self.needs}" if self.needs and shutil.which(self.needs) is None else ""

    @property
    def title(self) -> str:
        """Name as tests have it."""
        return f"{self.family}/{self.name}"

    def shortcomings(self, outcome: Outcome) -> list[str]:
        """All that is not as it must be."""
        found = []
        if not re.search(self.says, outcome.said):
            found.append(f"said {outcome.said!r}, which has no {self.says!r}")
        if self.recovers and outcome.recovered is None:
            found.append("did not recover")
        if outcome.grown > MEMORY:
            found.append(f"memory grew by {outcome.grown:.0f} MB")
        if outcome.key is not None and outcome.key > KEYS:
            found.append(f"a key was answered after {outcome.key:.1f} s")
        found += [f"left on a node: {command}" for command in outcome.left]
        found += [f"another node was disturbed: {what}" for what in outcome.disturbed]
        return found


FAULTS: dict[str, Fault] = {}


class Family:
    """Faults of one kind; called with a fault's name, it gives what registers the function that plays it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, name: str, says: str, *, recovers: bool = True, needs: str = "") -> Callable[[Play], Play]:
        """Register a fault: ``fault("name", "what must be said")(play)``."""

        def register(play: Play) -> Play:
            made = Fault(self.name, name, says, play, recovers, needs)
            assert made.title not in FAULTS
            FAULTS[made.title] = made
            return play

        return register
