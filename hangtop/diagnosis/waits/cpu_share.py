"""What a rank gets of the CPU that it wants: who is kept from it comes to the end of its work later by so much."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from hangtop.diagnosis.tables.thresholds import CPU_PEERS_SHARE, CPU_WAITED_SHARE
from hangtop.diagnosis.waits.rank_status import RankStatus

LEAST = 0.05
"""Least share that is reckoned with: who gets less makes its way too slowly for anybody to wait for its end."""


def cpu_share(status: RankStatus, waiters: Sequence[RankStatus]) -> float:
    """Part that it gets of the time that it wants to run; 1 where those who wait for it do not get far more.

    Where all ranks spin on a crowded machine, the job stands still all the same.
    """
    waited = waited_for_cpu(status)
    if waited < CPU_WAITED_SHARE:
        return 1.0
    usual = median(map(waited_for_cpu, waiters)) if waiters else 0.0
    return max(LEAST, 1.0 - waited / 100.0) if waited >= CPU_PEERS_SHARE * usual else 1.0


def lacks_cpu(status: RankStatus) -> str:
    """``, without a CPU for 90% of the time that it wants one``; empty for who gets its own."""
    waited = waited_for_cpu(status)
    return "" if waited < CPU_WAITED_SHARE else f", without a CPU for {waited}% of the time that it wants one"


def waited_for_cpu(status: RankStatus) -> int:
    """Per cent of the time in which it was ready to run and had no CPU."""
    return 0 if status.process is None else status.process.waited_for_cpu
