"""Asks a job that called ``hangtop.inside.start()`` for a check: which it can make, what each costs, who is asked.

All ranks that tell their steps, or those of one process group, get the same question with the same step, some seconds
ahead of the foremost of them, so that they make the check at the same point. The answer comes back on their pages, as
findings. A group is named by its ranks; the job looks for its process group that has them.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from collectors.fleet.transport import TransportError
from collectors.probes.inside import ask
from collectors.probes.repair.ask import sender
from collectors.samples.page import OF_GROUP, group_number
from hangtop.diagnosis.job import Job, Rank
from hangtop.diagnosis.phrasing import count, listed, ranks_text
from hangtop.session.asking.probing import Connections
from hangtop.session.options import SessionOptions
from hangtop.session.state.job_state import StepState

AHEAD = 6.0
"""Seconds that the step of the question lies ahead: all nodes have written it by then."""
LEAST = 2
"""Steps that it does at the least."""
DEADLINE = 60.0
"""Seconds that ranks wait for one another, at most."""

COSTS: Mapping[str, str] = {
    "same": "the step takes as long as reading all parameters and states once (10 GB: seconds on a CPU, less on a GPU)",
    "placement": "some milliseconds a thousand parameters; reads no tensor",
    "mesh": "some milliseconds",
    "barrier": "holds every rank until the last one has come",
    "bandwidth": "all-reduces of 1 to 64 MiB over these ranks: loads the network for seconds",
    "stragglers": "twenty rounds of small matrix products and an all-reduce, twice if some are late: about a second",
}
"""What a check costs the job; every one holds its ranks at the end of one step until all have come, or a minute."""
REPLICAS = (
    "These ranks are compared as replicas of one another: where each holds another part of plain tensors (tensor or "
    "pipeline parallel without DTensors), they differ rightly."
)
"""What to know before replicas are compared within a group that was named."""


class InsideRefused(Exception):
    """It cannot be asked; the text says why."""

    def __init__(self, why: str, *, passing: bool = False) -> None:
        super().__init__(why)
        self.passing = passing
        """It may be asked as soon as more is known."""


class Counting(Protocol):
    """A node whose steps are known."""

    @property
    def steps(self) -> Mapping[str, StepState]:
        """What each of its logs and pages tells of them."""


class Askable(Connections, Protocol):
    """What this needs of a session."""

    options: SessionOptions

    def job(self) -> Job:
        """The frozen picture of this moment."""


@dataclass(frozen=True, slots=True)
class CheckOrder:
    """One question, and whom it goes to."""

    check: str
    at_step: int
    ranks: tuple[Rank, ...]
    number: int
    within: tuple[int, ...] = ()
    """Ranks of the process group that makes it; none for all ranks of the job."""

    def title(self) -> str:
        """``check same of ranks 0,2``."""
        return f"check {self.check}" + (f" of {ranks_text(self.within)}" if self.within else "")

    def nodes(self) -> dict[str, list[int]]:
        """Pids by node."""
        found: dict[str, list[int]] = {}
        for rank in self.ranks:
            found.setdefault(rank.node, []).append(rank.process.pid)
        return found

    def command(self) -> str:
        """What is done on the nodes."""
        places = "; ".join(f"{node}: {listed([str(pid) for pid in pids])}" for node, pids in self.nodes().items())
        return (
            f"write “{self.title()} at the end of step {self.at_step:,}” onto the pages of {places}\n"
            f"Sent by: {sender()} (the program comes through its input)"
        )

    def cost(self) -> str:
        """What the job pays for it."""
        if not self.within:
            who = f"All {count(len(self.ranks), 'rank')} stop for it"
        else:
            who = f"Of the job, {ranks_text(self.within)} stop for it"
        cost = f"{COSTS[self.check]}. {who} at the end of that step, {DEADLINE:g} s at most."
        return f"{cost} {REPLICAS}" if self.within and self.check == "same" else cost


def plan(job: Job, check: str, every: float | None, within: Collection[int] = ()) -> CheckOrder:
    """A question to all ranks, or to those of one process group. ``every``: seconds of a step, where they are known.

    Raises :class:`InsideRefused` where too few ranks could answer, or they do not move.
    """
    living = [rank for rank in job.ranks if rank.gone_at is None]
    if within:
        living = _members(living, check, within)
    tells = [rank for rank in living if rank.inside is not None and rank.inside.pulse.step is not None]
    if not tells:
        raise InsideRefused("no rank tells its steps: the job must call hangtop.inside.start() and step()")
    silent = [rank.rank for rank in living if rank not in tells]
    if silent:
        raise InsideRefused(f"{ranks_text(silent)} would not come: they tell no steps (hangtop.inside.start())")
    if job.motion.moving is False:
        raise InsideRefused("the job stands still: no rank comes to the end of a step")
    if not every:
        raise InsideRefused("not yet known how long a step takes: ask again after the next steps", passing=True)
    ahead = max(LEAST, math.ceil(AHEAD / every))
    last = max(rank.inside.pulse.step or 0 for rank in tells if rank.inside is not None)
    return CheckOrder(check, last + ahead, tuple(tells), int(time.time() * 1000), tuple(sorted(set(within))))


def _members(living: Sequence[Rank], check: str, within: Collection[int]) -> list[Rank]:
    """The ranks of a group, all of which must be there: who is not would be waited for."""
    if check not in OF_GROUP:
        raise InsideRefused(f"check {check} is made by all ranks: a group alone can make {listed(OF_GROUP)}")
    if len(set(within)) < 2:
        raise InsideRefused(f"{ranks_text(within)} alone is no group to check")
    found = [rank for rank in living if rank.rank in within]
    if absent := set(within) - {rank.rank for rank in found}:
        raise InsideRefused(f"{ranks_text(absent)} would not come: no such process is seen, so nobody was asked")
    return found


def step_seconds(nodes: Iterable[Counting]) -> float | None:
    """Seconds of a step, as the ranks' pages were seen to go on; None while nobody knows."""
    found = []
    for node in nodes:
        for log in node.steps.values():
            if log.count.path.startswith("hangtop.inside") and len(log.told) > 1:
                (began, _, first), (ended, _, last) = log.told[0], log.told[-1]
                if last > first and ended > began:
                    found.append((ended - began) / (last - first))
    return min(found) if found else None


async def ask_ranks(session: Askable, order: CheckOrder) -> list[str]:
    """Write the question everywhere at once; who could not be asked, and why: then nobody makes the check.

    It is taken back from all others, as they would only wait for those. Raises :class:`InsideRefused` when read-only.
    """
    if session.options.read_only:
        raise InsideRefused("--read-only refuses checks: they hold the job for a moment")
    parts = await asyncio.gather(*(_ask(session, node, pids, order) for node, pids in order.nodes().items()))
    missed = [line for part in parts for line in part]
    if missed:
        await asyncio.gather(*(_withdraw(session, node, pids, order) for node, pids in order.nodes().items()))
    return missed


async def _ask(session: Askable, node: str, pids: Sequence[int], order: CheckOrder) -> list[str]:
    try:
        asked = await ask.write(
            session.transport(node), session.python(node), pids,
            number=order.number, check=order.check, at_step=order.at_step, seconds=DEADLINE,
            group=group_number(order.within) if order.within else 0,
        )  # fmt: skip
    except TransportError as error:
        return [f"{node}: {error}"]
    return [f"{node}, pid {one.pid}: {one.why}" for one in asked if not one.written]


async def _withdraw(session: Askable, node: str, pids: Sequence[int], order: CheckOrder) -> None:
    # a node that is gone holds its ranks up at the end of that step, for as long as it was said that they may be held
    with contextlib.suppress(TransportError):
        await ask.withdraw(session.transport(node), session.python(node), pids, number=order.number)
