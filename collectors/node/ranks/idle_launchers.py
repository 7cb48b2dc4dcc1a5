"""Agents of torchrun that run on this node while no rank does: they wait for those of other nodes, or for an order.

Of other launchers it is no sign: a shell under srun, or a cluster of Ray's, waits for hours for something to do.
"""

from __future__ import annotations

from typing import Dict, Iterable, Iterator, List, Set

from collectors.node import redact
from collectors.node.processes.commands import program
from collectors.node.processes.procfs import CLOCK_TICKS
from collectors.node.ranks.tracked import Tracked
from collectors.samples.ranks import IdleLauncher

AGENTS = frozenset(("torchrun", "torch.distributed.run", "torch.distributed.launch"))
"""Programs and modules that start a rank on their node as soon as all nodes have come, whatever that rank runs."""
RAN_S = 5.0
"""CPU seconds of children that have ended from which on ranks were among them: each takes more for its imports."""
TOLD = 64
"""Launchers of one node that are told at the most."""


class IdleLaunchers:
    """Remembers what it has told."""

    def __init__(self, booted: float) -> None:
        self._booted = booted
        self._told: Dict[int, IdleLauncher] = {}
        self._ran: Set[int] = set()
        """Those beside which ranks were seen."""

    def look(self, launchers: Iterable[Tracked], now: float, *, ranks: bool) -> Iterator[IdleLauncher]:
        """What has changed: ``launchers`` are those that live, ``ranks`` tells whether any rank does."""
        idle: Dict[int, IdleLauncher] = {}
        if ranks:
            self._ran = {one.pid for one in launchers}
        waiting: List[Tracked] = [] if ranks else [one for one in launchers if program(one.words) in AGENTS]
        for tracked in waiting[:TOLD]:
            pid, started = tracked.pid, self._booted + tracked.stat.start_ticks / CLOCK_TICKS
            ran = pid in self._ran or tracked.stat.children_cpu >= RAN_S
            since = (self._told[pid].since if pid in self._told else now) if ran else None
            idle[pid] = IdleLauncher(pid, started, redact.command(tracked.words, 512), True, since)
        for pid, told in self._told.items():
            if pid not in idle:
                yield told._replace(idle=False)
        for pid, launcher in idle.items():
            if self._told.get(pid) != launcher:
                yield launcher
        self._told = idle
