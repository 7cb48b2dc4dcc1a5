"""What is asked of a job's own witnesses by consent: what a yes is given to, and what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Protocol

from hangtop.diagnosis.job import Job, Rank
from hangtop.session.asking.probing import Connections
from hangtop.session.options import SessionOptions
from hangtop.session.watching.witnesses import Witnesses


class WitnessRefused(Exception):
    """It cannot be asked here; the text says why, and what the next run would need."""


class WitnessSession(Connections, Protocol):
    """What asking needs of a session."""

    options: SessionOptions
    witnesses: Witnesses

    def job(self) -> Job:
        """The frozen picture of this moment."""

    def now(self) -> float:
        """Seconds since the epoch, by the session's clock."""


class WitnessOrder(Protocol):
    """One question to the job, complete: nothing is looked up any more once somebody said yes to it."""

    @property
    def title(self) -> str:
        """In a few words."""

    def brief(self) -> str:
        """Who is asked for what, in one line."""

    def command(self) -> str:
        """What is done on the nodes, exactly."""

    def risk(self) -> str:
        """What it may do to the job."""

    async def carry_out(self, session: WitnessSession) -> list[str]:
        """Ask; the answer in lines. Raises :class:`WitnessRefused` in a session that may only look."""


def refuse_read_only(session: WitnessSession, what: str) -> None:
    """Raise :class:`WitnessRefused` in a session that may only look."""
    if session.options.read_only:
        raise WitnessRefused(f"--read-only refuses {what}")


def running(session: WitnessSession, ranks: Collection[int] | None = None) -> list[Rank]:
    """These ranks, or all, as far as they run. Raises :class:`WitnessRefused` where none does."""
    living = [rank for rank in session.job().ranks if rank.gone_at is None and (ranks is None or rank.rank in ranks)]
    if not living:
        raise WitnessRefused("no such rank runs")
    return living


async def ask_by_node(ranks: Collection[Rank], of_node: Callable[[str, list[Rank]], Awaitable[list[str]]]) -> list[str]:
    """Ask the ranks of each node, all nodes at once; the lines of all, in the order of the nodes."""
    by_node: dict[str, list[Rank]] = {}
    for rank in ranks:
        by_node.setdefault(rank.node, []).append(rank)
    parts = await asyncio.gather(*(of_node(node, theirs) for node, theirs in by_node.items()))
    return [line for part in parts for line in part]
