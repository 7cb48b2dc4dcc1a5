"""What is asked about jobs whose ranks wait below Python: layouts, faults and healthy twins, and the right answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

STEP: Final = 0.4
"""Seconds of a step where nothing else is said."""
STUCK_TOGETHER: Final = ("collective_stalled", "job_stalled")
"""What may be said when all wait for their GPUs and nothing tells them apart."""
LAYOUTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"data": (), "grid": ("--tp", "2", "--pp", "2"), "pipeline": ("--pp", "4")}
)
"""The job's own words for each layout of four ranks."""


@dataclass(frozen=True)
class Case:
    """One job, and what must be said of it."""

    layout: str
    fault: str = ""
    who: int = 1
    kinds: tuple[str, ...] = ()
    """Kinds of which the first finding has one; none: nothing may be raised, and the verdict is healthy."""
    names: bool = True
    """The rank must be named; otherwise nobody else may be named alone."""
    arguments: tuple[str, ...] = ()
    word: str = ""
    """Asked about when ``who`` has written this; empty: when the fault has struck and the job stands."""
    live_for: float = 45.0
    """Seconds that the live session watches at most; the whole of it when nothing may be raised."""
    slow: bool = True
    recorder: bool = False
    """Its ranks dump their flight recorders when asked."""

    @property
    def healthy(self) -> bool:
        """Nothing may be raised."""
        return not self.kinds

    @property
    def words(self) -> list[str]:
        """The job's command line, less its folder and library."""
        own = ["--step-time", str(STEP), "--after", "2", "--fault", self.fault, "--fault-rank", str(self.who)]
        return [*own, *LAYOUTS[self.layout], *self.arguments]


def _faults(layout: str, stage: int, quick: tuple[str, ...] = ()) -> dict[str, Case]:
    """Every fault of one layout; ``stage`` is the rank that suffers it."""
    named = {
        "reader": ("dataloader", ("rank_stuck_in_data",)),
        "lock": ("lock", ("rank_stuck_on_lock",)),
        "code": ("busy", ("rank_stuck_in_code",)),
        "stopped": ("stopped", ("rank_stopped",)),
        "killed": ("killed", ("rank_missing", "rank_killed")),
    }
    together = {
        "missing": ("missing", ("collective_mismatch", *STUCK_TOGETHER)),
        "gpu_hangs": ("gpu-hang", STUCK_TOGETHER),
        "all_wait": ("network", STUCK_TOGETHER),
    }
    cases = {name: Case(layout, fault, stage, kinds, slow=name not in quick) for name, (fault, kinds) in named.items()}
    cases |= {
        name: Case(layout, fault, stage, kinds, names=False, slow=name not in quick)
        for name, (fault, kinds) in together.items()
    }
    return {f"{layout}_{name}": case for name, case in cases.items()}


CASES: Final[Mapping[str, Case]] = MappingProxyType(
    {
        **_faults("data", 2, quick=("reader",)),
        **_faults("grid", 1),
        # one stage stuck: the middle of a pipeline, whose neighbours wait for it in both directions
        **_faults("pipeline", 2),
        "data_missing_recorder": Case("data", "missing", 2, ("collective_mismatch",), recorder=True),
        "data_all_wait_recorder": Case("data", "network", 2, STUCK_TOGETHER, names=False, recorder=True),
        "grid_gpu_hangs_recorder": Case("grid", "gpu-hang", 1, STUCK_TOGETHER, names=False, recorder=True),
        "data_checkpoint": Case("data", "checkpoint", 3, ("rank_stuck_in_checkpoint",)),
        # healthy twins
        "data_moves": Case("data", word="step 3", live_for=15),
        "grid_moves": Case("grid", word="iteration        3", live_for=30),
        "pipeline_bubble": Case(
            "pipeline", word="iteration        1", arguments=("--step-time", "16", "--micro-batches", "2"), live_for=60
        ),
        "data_evaluates": Case("data", who=0, word="evaluating", arguments=("--evaluate-at", "4"), live_for=38),
        "grid_evaluates": Case("grid", who=0, word="evaluating", arguments=("--evaluate-at", "3"), live_for=38),
    }
)
"""Every case by name."""
