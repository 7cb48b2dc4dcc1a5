"""Two groups of ranks measured alone: two nodes with all that they have, two GPUs, two ports."""

from __future__ import annotations

from collections.abc import Sequence

from collectors.probes.allreduce.figures import bandwidths
from collectors.probes.allreduce.plan import ProbePlan
from collectors.probes.allreduce.rounds import RoundOutcome, Rounds, Seat, Work
from collectors.samples.probes import ProbePair

BARRIER = 3.0
"""Seconds in which the two must have met."""


class Pairing:
    """Measures pairs; several may run at once as long as they share no seat."""

    def __init__(self, plan: ProbePlan, rounds: Rounds) -> None:
        self._plan = plan
        self._rounds = rounds

    async def measure(self, a: str, b: str, first: Sequence[Seat], second: Sequence[Seat]) -> ProbePair:
        """Measure whether each reaches the other, then what they reach together; ``a`` and ``b`` are their names."""
        plan = self._plan
        work = Work(("all_reduce",), plan.pair_sizes, BARRIER, plan.pair_timeout, deadline=plan.pair_deadline)
        outcome = await self._rounds.run([*first, *second], work)
        pair = _as_pair(a, b, outcome)
        return pair._replace(error=f"{b} cannot reach a port of {a}: {pair.error}") if outcome.apart else pair


def _as_pair(a: str, b: str, outcome: RoundOutcome) -> ProbePair:
    world = len(outcome.seats)
    speeds = [bandwidths(found.op, found.bytes, found.seconds, world)[1] for found in outcome.figures]
    latency = outcome.latency
    return ProbePair(
        a,
        b,
        max(speeds) if speeds and outcome.good else None,
        latency.median_us / 1e6 if latency else None,
        outcome.retransmitted,
        outcome.complaint(),
    )
