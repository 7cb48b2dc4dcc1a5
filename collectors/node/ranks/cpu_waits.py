"""How long the ranks' main threads were ready to run and had no CPU."""

from __future__ import annotations

from collections import deque
from typing import Deque, Dict, Optional, Set, Tuple

from collectors.node.files import text
from collectors.node.processes.procfs import Stat, colon_field
from collectors.samples.ranks import CpuWait

WINDOW_S = 12.0
"""Seconds over which a share is measured: several steps of most jobs."""
KNOWN_S = 6.0
"""Seconds of watching before a share is sent."""
ROUNDED = 5
"""Per cent that a share is rounded to, so that a share that stays as it is is sent once."""
WORTH = 10
"""Per cent from which on a rank counts as waiting. While one rank of the node does, all of them are sent."""


class CpuWaits:
    """The ranks of one node."""

    def __init__(self) -> None:
        self._readings: Dict[int, Deque[Tuple[float, float]]] = {}
        """By pid: moments, and the seconds for which the main thread had waited by then."""
        self._waiting: Set[int] = set()

    def look(self, pid: int, moment: float, waited: float, stat: Stat, status: bytes) -> Optional[CpuWait]:
        """A rank that waits, did at the last look, or runs beside one that does."""
        readings = self._readings.setdefault(pid, deque())
        readings.append((moment, waited))
        while len(readings) > 2 and readings[1][0] <= moment - WINDOW_S:
            readings.popleft()
        (since, before), watched = readings[0], moment - readings[0][0]
        if watched < KNOWN_S:
            return None
        share = ROUNDED * round(100.0 * (waited - before) / (moment - since) / ROUNDED)
        if share < WORTH and not self._waiting:
            return None
        (self._waiting.add if share >= WORTH else self._waiting.discard)(pid)
        allowed = text(colon_field(status, b"Cpus_allowed_list"))[:200]
        return CpuWait(pid, max(0, min(100, share)), allowed, stat.nice)

    def forget(self, pid: int) -> None:
        """A process that is gone."""
        self._readings.pop(pid, None)
        self._waiting.discard(pid)
