"""The steps that a job's logs tell of, all logs together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from hangtop.diagnosis.node import Node, Steps
from hangtop.diagnosis.phrasing import count

NUMBERED = ("step", "iteration", "update")
"""Counters whose number is that of a training step."""
FRESH = 10.0
"""Seconds for which a step that was done shows that the job moves, while nobody knows how often it logs one."""
LONGEST = 120.0
"""The same for one that logs seldom, at the most; …"""
RHYTHMS, LATE = 2.0, 3.0
"""… for one whose rhythm is known so many times the usual time between two steps, and so many seconds more, for logs
are looked at every other second."""
PLURALS = {"batch": "batches", "bar": "progress bar", "": "count"}


@dataclass(slots=True)
class JobSteps:
    """What all logs of a job tell, at one moment."""

    now: float
    best: Steps | None = None
    """The log that proves most."""
    ranks: int = 0
    """How many ranks have logs of their own that went on lately."""
    last: int | None = None
    """Number of the last training step that was told, ..."""
    numbered_at: float = float("-inf")
    """... when that was written, ..."""
    last_at: float | None = None
    """... and when the last line that counts was written, with or without a number of a step."""
    grown_at: float | None = None
    """When a step was last seen to be done."""
    every: float | None = None
    """Seconds between two steps that are logged, as far as one knows."""
    longest: float | None = None
    """Seconds that a training step took at the longest of late, by the log that tells the shortest."""
    even: float | None = None
    """The same where the last few of that log took as good as the same: then that is the pace of the job."""

    def take(self, node: Node, unrelated: Collection[tuple[str, int]]) -> None:
        """Take what the logs of a node tell; ``unrelated`` are processes of other runs."""
        here = node.link in {"live", "limited"}
        for log in node.steps.values():
            pid = log.count.pid
            rank = None if pid is None else node.ranks.get(pid)
            if pid is None or ((node.name, pid) not in unrelated and (rank is None or rank.gone_at is None)):
                self.ranks += self._log(log, seen=here) and rank is not None

    def _log(self, log: Steps, *, seen: bool) -> bool:
        """Take one log; True when it went on lately."""
        numbered, every = log.count.name in NUMBERED, _every(log)
        if log.told:
            at, value, _ = log.told[-1]
            self.last_at = max(at, self.last_at or at)
            if numbered and at > self.numbered_at:
                self.numbered_at, self.last = at, int(value)
        if every is not None:
            self.every = min(every, self.every or every)
        if numbered and log.count.longest is not None and log.count.longest < (self.longest or float("inf")):
            self.longest, self.even = log.count.longest, log.count.even
        if log.grown_at is None or not seen:
            return False
        self.grown_at = max(log.grown_at, self.grown_at or log.grown_at)
        if log.told and (self.best is None or _worth(log) > _worth(self.best)):
            self.best = log
        return self.now - log.grown_at <= _fresh(every)

    @property
    def told_at(self) -> float | None:
        """When the last training step was written; where none has a number, the last line that counts."""
        return self.last_at if self.last is None else self.numbered_at

    def going_on(self) -> bool:
        """Whether the logs show that steps are being done."""
        return self.grown_at is not None and self.now - self.grown_at <= self.fresh

    @property
    def fresh(self) -> float:
        """Seconds for which a step is news."""
        return _fresh(self.every)

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
        """``4 ranks, steps 1,204 to 1,219 in 5 s``; empty while no step was seen to be done."""
        best = self.best
        if best is None:
            return ""
        who, name = f"{count(self.ranks, 'rank')}, " if self.ranks else "", best.count.name
        (began, first, _), (newest, number, _) = best.told[0], best.told[-1]
        if len(best.told) == 1:
            return f"{who}{name or 'count'} {_number(number)} is done"
        seconds = max(1.0, newest - began)
        return f"{who}{PLURALS.get(name, f'{name}s')} {_number(first)} to {_number(number)} in {seconds:,.0f} s"


def _every(log: Steps) -> float | None:
    """Seconds between two steps of one log: as its lines say, or as they came while watched."""
    if log.count.every is not None or len(log.told) < 3:
        return log.count.every
    return median((after[0] - before[0]) / max(1, after[2] - before[2]) for before, after in pairwise(log.told))


def _worth(log: Steps) -> tuple[bool, float]:
    return log.count.name in NUMBERED, log.grown_at or 0.0


def _fresh(every: float | None) -> float:
    return FRESH if every is None else min(LONGEST, RHYTHMS * every + LATE)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
