"""Agents of torchrun that run on this node while no rank does: they wait for those of other nodes, or for an order.

Of other launchers it is no sign: a shell under srun, or a cluster of Ray's, waits for hours for something to do.
"""

from __future__ import annotations

from typing import Dict, Iterator, Sequence, Set

from collectors.node import redact
from collectors.node.processes.commands import program
from collectors.node.processes.procfs import CLOCK_TICKS
from collectors.node.ranks.tracked import Tracked
from collectors.samples.ranks import IdleLauncher

AGENTS = frozenset(("torchrun", "torch.distributed.run", "torch.distributed.launch"))
"""Programs and modules that start a rank on their node as soon as all nodes have come, whatever that rank runs."""
RAN_S = 5.0
"""CPU seconds of children that have ended from which on ranks were among them: each takes more for its imports."""


class IdleLaunchers:
    """Remembers what it has told."""

    def __init__(self, booted: float) -> None:
        self._booted = booted
        self._told: Dict[int, IdleLauncher] = {}
        self._ran: Set[int] = set()
        """Those beside which ranks were seen."""

    def look(self, launchers: Sequence[Tracked], now: float, *, ranks: bool) -> Iterator[IdleLauncher]:
        """What has changed: ``launchers`` are those that live, ``ranks`` tells whether any rank does."""
        before, self._told = self._told, {}
        self._ran &= before.keys() | {one.pid for one in launchers}
        for one in launchers:
            if ranks:
                self._ran.add(one.pid)
            elif program(one.words) in AGENTS:
                ran = one.pid in self._ran or one.stat.children_cpu >= RAN_S
                known = before.get(one.pid)
                since = (now if known is None else known.since) if ran else None
                started = self._booted + one.stat.start_ticks / CLOCK_TICKS
                self._told[one.pid] = IdleLauncher(one.pid, started, redact.command(one.words, 512), True, since)
        for pid, told in before.items():
            if pid not in self._told:
                yield told._replace(idle=False)
        for pid, told in self._told.items():
            if before.get(pid) != told:
                yield told
