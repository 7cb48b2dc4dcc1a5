"""The steps that a job's logs tell of, all logs together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from hangtop.diagnosis.node import Node, Steps

NUMBERED = ("step", "iteration", "update")
"""Counters whose number is that of a training step."""
FRESH, LONGEST = 10.0, 120.0
"""Seconds for which a step that was done shows that the job moves, while nobody knows how often it logs one; and the
same for one that logs seldom, at the most; …"""
RHYTHMS, LATE = 2.0, 3.0
"""… for one whose rhythm is known so many times the usual time between two steps, and so many seconds more, for logs
are looked at every other second."""


@dataclass(slots=True)
class JobSteps:
    """What all logs of a job tell, at one moment."""

    now: float
    best: Steps | None = None
    """The log that proves most: one that numbers training steps, and of those the one whose last line is the newest."""
    grown_at: float | None = None
    """When a step was last seen to be done."""
    every: float | None = None
    """Seconds between two steps that are logged, as far as one knows."""
    longest: float | None = None
    """Seconds that a training step took at the longest of late, by the log that tells the shortest."""

    def take(self, node: Node, unrelated: Collection[tuple[str, int]]) -> None:
        """Take what the logs of a node tell; ``unrelated`` are processes of other runs."""
        for log in node.steps.values():
            if log.count.pid is None or (node.name, log.count.pid) not in unrelated:
                self._take_log(log)

    def _take_log(self, log: Steps) -> None:
        every, longest = _every(log), log.count.longest if log.count.name in NUMBERED else None
        if log.told and (self.best is None or _worth(log) > _worth(self.best)):
            self.best = log
        if every is not None:
            self.every = min(every, self.every or every)
        if longest is not None:
            self.longest = min(longest, self.longest or longest)
        if log.grown_at is not None:
            self.grown_at = max(log.grown_at, self.grown_at or log.grown_at)

    @property
    def last(self) -> int | None:
        """Number of the last training step that was told."""
        return int(self.best.told[-1][1]) if self.best is not None and self.best.count.name in NUMBERED else None

    @property
    def told_at(self) -> float | None:
        """When the last training step was written; where none has a number, the last line that counts."""
        return None if self.best is None else self.best.told[-1][0]

    @property
    def fresh(self) -> float:
        """Seconds for which a step is news."""
        return FRESH if self.every is None else min(LONGEST, RHYTHMS * self.every + LATE)

    def going_on(self) -> bool:
        """Whether the logs show that steps are being done."""
        return self.grown_at is not None and self.now - self.grown_at <= self.fresh

    def per_second(self, now: float) -> float | None:
        """Steps a second as the best log told them last; 0 when the next line is overdue, None without two of them."""
        told = () if self.best is None else self.best.told
        if len(told) < 2:
            return None
        (began, first, _), (newest, last, _) = told[0], told[-1]
        usual = median(after[0] - before[0] for before, after in pairwise(told))
        overdue = now - newest > max(LATE, RHYTHMS * usual + LATE / 2)
        return 0.0 if newest <= began or overdue else max(0.0, (last - first) / (newest - began))

    def proof(self) -> str:
        """``step 1,204 to 1,219 in 5 s``; empty while no step was seen to be done."""
        if self.best is None:
            return ""
        name, told = self.best.count.name, self.best.told
        (began, first, _), (newest, number, _) = told[0], told[-1]
        if len(told) == 1:
            return f"{name} {number:,.10g} is done"
        return f"{name} {first:,.10g} to {number:,.10g} in {max(1.0, newest - began):,.0f} s"


def _every(log: Steps) -> float | None:
    """Seconds between two steps of one log: as its lines say, or as they came while watched."""
    if log.count.every is not None or len(log.told) < 3:
        return log.count.every
    return median((after[0] - before[0]) / max(1, after[2] - before[2]) for before, after in pairwise(log.told))


def _worth(log: Steps) -> tuple[bool, float]:
    return log.count.name in NUMBERED, log.told[-1][0]
