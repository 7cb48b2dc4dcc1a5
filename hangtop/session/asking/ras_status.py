"""NCCL's RAS asked for its counts by consent, where it is not asked by itself: NCCL 2.24 to 2.28.

Those can crash when they are asked (:data:`hangtop.session.watching.witnesses.RAS_SAFE`), so somebody has to say
yes. One rank is asked for the whole job, as often as counts must be seen to stand still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from collectors.fleet.transport import TransportError
from collectors.probes import ras
from collectors.samples.collectives import RasRank, RasReport
from hangtop.diagnosis.groups.owners import Owners
from hangtop.diagnosis.groups.ras import AWAY, POLLS, behind
from hangtop.diagnosis.job import Job, Look, Rank
from hangtop.diagnosis.phrasing import count, rank_text, ranks_text
from hangtop.session.asking.orders import WitnessRefused, WitnessSession, refuse_read_only
from hangtop.session.asking.ras import asked_rank, line_to
from hangtop.session.watching.ras_watch import release
from hangtop.session.watching.witnesses import RAS_SAFE, RAS_SINCE, about

APART = 2.0
"""Seconds between two questions."""
RISK = (
    "NCCL {version} can crash a job that is asked (NVIDIA/nccl#1669, #1718, #1762: while it starts, or where ranks are "
    "gone); 2.29 is the first that bears it. For a job that hangs anyway."
)
SAFE = "NCCL {version} bears it, and is asked by itself while the job stands still."


MOVING = "the counts move: the job launches collectives, and what differs between ranks means nothing"
EVEN = (
    "all ranks launched the same: the lag is in Send and Recv or in CUDA graphs, which RAS does not count, on a GPU or "
    "in the network"
)


@dataclass(frozen=True, slots=True)
class RasStatusOrder:
    """A few questions to RAS for what each rank has launched."""

    asked: Rank
    where: tuple[str, int]
    version: str
    apart: float = APART
    title: str = "NCCL's RAS"

    def brief(self) -> str:
        """Who is asked for what, in one line."""
        return (
            f"NCCL's RAS tells {POLLS} times what each rank has launched, through {rank_text(self.asked.rank)} on "
            f"{self.asked.node}"
        )

    def command(self) -> str:
        """The line, and where it goes."""
        return line_to(self.asked, self.where, "VERBOSE STATUS")

    def risk(self) -> str:
        """What it may do to the job."""
        return (RISK if release(self.version) < RAS_SAFE else SAFE).format(version=self.version)

    async def carry_out(self, session: WitnessSession) -> list[str]:
        """Ask; who launched less than others. Raises :class:`WitnessRefused` where RAS does not answer."""
        refuse_read_only(session, self.title)
        looks: list[Look[RasReport]] = []
        node, python = session.transport(self.asked.node), session.python(self.asked.node)
        for left in reversed(range(POLLS)):
            try:
                report = await ras.ask(node, python, self.asked.process.pid, self.where, session.now())
            except TransportError as error:
                raise WitnessRefused(str(error)) from None
            if not about(report, session.job().ranks):
                raise WitnessRefused(f"{self.asked.node}: RAS answers about processes that are not this job's")
            session.witnesses.counted(report)
            looks.append(Look(session.now(), report))
            if left:
                await asyncio.sleep(self.apart)
        return told(looks, session.job())


def status(session: WitnessSession) -> RasStatusOrder:
    """What RAS counts. Raises :class:`WitnessRefused` where the job's NCCL has no RAS."""
    asked = asked_rank(session.job(), RAS_SINCE, "RAS")
    where = ras.address(asked.process.env.get("NCCL_RAS_ADDR", ""))
    return RasStatusOrder(asked, where, asked.process.versions.get("nccl", ""))


def told(looks: Sequence[Look[RasReport]], job: Job) -> list[str]:
    """The answers in lines: who launched less of what, who is away, and what even counts mean."""
    owners = Owners(job)
    lines = []
    for one in behind(looks):
        less = [one.members[rank] for rank in one.least]
        high = max(one.counts.values())
        low = min(one.counts.values())
        lines.append(
            f"{_names(less, owners)} launched {low} {one.op}, others of the communicator {high} "
            f"(communicator {one.comm}, {count(one.size, 'rank')}; the counts stand still)"
        )
    last = looks[-1].value
    for communicator in last.communicators:
        gone = [rank for rank in communicator.ranks if rank.state in AWAY]
        if gone:
            lines.append(f"{_names(gone, owners)}: {gone[0].state} (communicator {communicator.comm})")
        failed = [rank for rank in communicator.ranks if rank.async_error]
        if failed:
            error = failed[0].async_error
            lines.append(f"{_names(failed, owners)}: NCCL error {error} (communicator {communicator.comm})")
    if not lines:
        counts = [[one.ranks for one in look.value.communicators] for look in looks]
        lines.append(MOVING if any(one != counts[0] for one in counts) else EVEN)
    return [f"NCCL {last.nccl}, {count(len(last.communicators), 'communicator')}", *lines]


def _names(members: Sequence[RasRank], owners: Owners) -> str:
    """Ranks of the job, else their places in the communicator with host and pid."""
    ranks = owners.of_members(members)
    if len(ranks) == len(members):
        return ranks_text(ranks)
    return ", ".join(f"member {one.rank} (pid {one.pid} on {one.host or 'a node'})" for one in members[:8])
