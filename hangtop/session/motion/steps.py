"""The training steps in a job's logs, all logs together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from hangtop.diagnosis.node import Node, Steps

NUMBERED = ("step", "iteration", "update")
"""Names of counters that number training steps."""
FRESH, LONGEST = 10.0, 120.0
"""Seconds for which a step shows that the job moves, if its rhythm is not known; and at most, for a job that rarely
logs a step; …"""
RHYTHMS, LATE = 2.0, 3.0
"""… with a known rhythm, this multiple of the usual time between two steps plus this many seconds, because logs are
read every other second."""


@dataclass(slots=True)
class JobSteps:
    """The steps in all logs of a job, at one moment."""

    now: float
    best: Steps | None = None
    """The log that proves most: logs that number training steps come first, then the newest last line decides."""
    grown_at: float | None = None
    """When a new step was last seen."""
    every: float | None = None
    """Seconds between two logged steps; None if not known."""
    longest: float | None = None
    """Seconds of the longest recent training step; the shortest value if several logs have one."""

    def take(self, node: Node, unrelated: Collection[tuple[str, int]]) -> None:
        """Add the logs of a node; ``unrelated`` is (node, pid) of other runs' processes."""
        for log in node.steps.values():
            if log.count.pid is None or (node.name, log.count.pid) not in unrelated:
                self._take_log(log)

    def _take_log(self, log: Steps) -> None:
        every, longest = _every(log), log.count.longest if log.count.name in NUMBERED else None
        if log.lines and (self.best is None or _worth(log) > _worth(self.best)):
            self.best = log
        if every is not None:
            self.every = min(every, self.every or every)
        if longest is not None:
            self.longest = min(longest, self.longest or longest)
        if log.grown_at is not None:
            self.grown_at = max(log.grown_at, self.grown_at or log.grown_at)

    @property
    def last(self) -> int | None:
        """Number of the last logged training step; None if steps have no numbers."""
        return int(self.best.lines[-1][1]) if self.best is not None and self.best.count.name in NUMBERED else None

    @property
    def logged_at(self) -> float | None:
        """When the last training step was logged; without numbered steps, the last line that counts something."""
        return None if self.best is None else self.best.lines[-1][0]

    @property
    def fresh(self) -> float:
        """Seconds for which a step shows that the job moves."""
        return FRESH if self.every is None else min(LONGEST, RHYTHMS * self.every + LATE)

    def going_on(self) -> bool:
        """Whether the logs show that the job takes steps now."""
        return self.grown_at is not None and self.now - self.grown_at <= self.fresh

    def per_second(self) -> float | None:
        """Steps per second by the best log's last lines; 0 if the next line is overdue, None without two lines."""
        lines = () if self.best is None else self.best.lines
        if len(lines) < 2:
            return None
        (began, first, _), (newest, last, _) = lines[0], lines[-1]
        return max(0.0, (last - first) / (newest - began)) if self.going_on() and newest > began else 0.0

    def proof(self) -> str:
        """``step 1,204 to 1,219 in 5 s``; empty without a log of steps."""
        if self.best is None:
            return ""
        name, lines = self.best.count.name, self.best.lines
        (began, first, _), (newest, number, _) = lines[0], lines[-1]
        if len(lines) == 1:
            return f"{name} {number:,.10g} is done"
        return f"{name} {first:,.10g} to {number:,.10g} in {max(1.0, newest - began):,.0f} s"


def _every(log: Steps) -> float | None:
    """Seconds between two steps of one log, by its lines' times or by their arrival; None if not known."""
    if log.count.every is not None or len(log.lines) < 3:
        return log.count.every
    return median((after[0] - before[0]) / max(1, after[2] - before[2]) for before, after in pairwise(log.lines))


def _worth(log: Steps) -> tuple[bool, float]:
    return log.count.name in NUMBERED, log.lines[-1][0]
