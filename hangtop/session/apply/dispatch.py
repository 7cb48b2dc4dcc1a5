"""Functions that put samples into the state register here, by the kind of sample that they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from collectors.samples.gpus import GpuSample
from collectors.samples.ranks import RankPulse
from hangtop.session.state.changes import Change, ChangeKind
from hangtop.session.state.job_state import JobState, NodeState
from hangtop.session.state.time_series import LARGE, ROWS, ROWS_OF_LARGE


@dataclass(slots=True)
class SampleContext:
    """Where a sample belongs."""

    job: JobState
    node: NodeState
    at: float
    """This machine's time of the sample; the times inside it are on this machine's clock already."""
    pulses: list[RankPulse] = field(default_factory=list)
    """Of this flush, for the node's past; the same for ``gpu_rows``."""
    gpu_rows: list[GpuSample] = field(default_factory=list)

    def flushed(self) -> None:
        """All of one flush has been applied: keep what moved."""
        rows = ROWS if len(self.job.nodes) <= LARGE else ROWS_OF_LARGE
        if self.pulses:
            self.node.pulses.append(self.at, self.pulses, rows)
            self.pulses = []
        if self.gpu_rows:
            self.node.gpu_rows.append(self.at, self.gpu_rows, rows)
            self.gpu_rows = []

    def note(self, text: str, kind: ChangeKind = "other") -> None:
        """Remember a change that people want to see."""
        self.job.changes.append(Change(self.at, self.node.name, text, kind))


S = TypeVar("S")
Apply: TypeAlias = Callable[[SampleContext, S], None]
APPLIERS: dict[type, Apply[Any]] = {}
"""What is done with each kind of sample, …"""
TOGETHER: dict[type, Apply[Sequence[Any]]] = {}
"""… and with all of a kind that moves that came side by side: of those there are many in every tick."""


def applies(kind: type[S]) -> Callable[[Apply[S]], Apply[S]]:
    """Have a function apply each sample of this kind."""

    def register(function: Apply[S]) -> Apply[S]:
        APPLIERS[kind] = function
        return function

    return register


def applies_together(kind: type[S]) -> Callable[[Apply[Sequence[S]]], Apply[Sequence[S]]]:
    """Have a function apply all samples of this kind that came side by side."""

    def register(function: Apply[Sequence[S]]) -> Apply[Sequence[S]]:
        TOGETHER[kind] = function
        return function

    return register
