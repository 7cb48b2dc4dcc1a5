"""What a process that called ``hangtop.inside.start()`` tells of itself, by the page in its memory."""

from __future__ import annotations

from typing import List, NamedTuple, Optional


class InsidePulse(NamedTuple):
    """Where it is: its step and the phase of it, as the job says them; neither once it tells nothing any more."""

    pid: int
    step: Optional[int]
    """The last step that is done; None before the first."""
    step_at: Optional[float]
    phase: str
    """``data``, ``forward``, ``backward``, ``optimizer``, ``checkpoint``, ``evaluation``; empty where it says none."""
    phase_at: Optional[float]


class InsideFinding(NamedTuple):
    """One thing that a check found."""

    kind: str
    severity: str
    summary: str
    ranks: List[int]
    """The culprits."""
    evidence: List[str]
    advice: str


class InsideResult(NamedTuple):
    """What came of a check that the job made, as one of its processes tells it; of each check the latest."""

    pid: int
    check: str
    """One of :data:`collectors.samples.page.CHECKS`."""
    at: float
    ranks: List[int]
    """Of the group that it was made among."""
    ok: bool
    seconds: float
    summary: str
    findings: List[InsideFinding]
