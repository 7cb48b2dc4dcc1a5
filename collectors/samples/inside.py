"""Samples of processes that called ``hangtop.inside.start()``, read from the page that each shares."""

from __future__ import annotations

from typing import List, NamedTuple, Optional


class InsidePulse(NamedTuple):
    """Step and phase of a process, as the job reports them; both are unset once its page is gone."""

    pid: int
    step: Optional[int]
    """The last completed step; None before the first."""
    step_at: Optional[float]
    phase: str
    """``data``, ``forward``, ``backward``, ``optimizer``, ``checkpoint``, ``evaluation``; empty if none is reported."""
    phase_at: Optional[float]


class InsideFinding(NamedTuple):
    """One finding of a check."""

    kind: str
    severity: str
    summary: str
    ranks: List[int]
    """The culprits."""
    evidence: List[str]
    advice: str


class InsideResult(NamedTuple):
    """The latest result of a check that the job ran, as one of its processes reports it."""

    pid: int
    check: str
    """One of :data:`collectors.samples.page.CHECKS`."""
    at: float
    ranks: List[int]
    """Ranks of the group that took part in the check."""
    ok: bool
    seconds: float
    summary: str
    findings: List[InsideFinding]
