"""What NCCL's RAS tells by consent alone: its counts where an old release may crash on them, and its diagnostics.

``docs/userguide/source/troubleshooting/ras.rst`` of NVIDIA/nccl. One rank is asked for the whole job.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from shlex import quote
from typing import Protocol

from collectors.fleet.transport import TransportError
from collectors.probes import ras
from collectors.samples.collectives import RasRank, RasReport
from hangtop.diagnosis.groups.owners import Owners
from hangtop.diagnosis.groups.ras import AWAY, POLLS, behind
from hangtop.diagnosis.job import Job, Look, Rank
from hangtop.diagnosis.phrasing import count, rank_text, ranks_text
from hangtop.session.probes import Probe, ProbeRefused, ProbeResult, ProbeSession, Say, text_lines
from hangtop.session.watching.ras_watch import release
from hangtop.session.watching.witnesses import RAS_SAFE, RAS_SINCE, Witnesses, about

DIAGNOSTICS_SINCE = (2, 31)
DIAGNOSTICS_SECONDS = 60.0
APART = 2.0
"""Seconds between two questions for the counts."""
CRASHES = (
    "NCCL {version} can crash a job that is asked (NVIDIA/nccl#1669, #1718, #1762: while it starts, or where ranks are "
    "gone); 2.29 is the first that bears it. For a job that hangs anyway."
)
BEARS_IT = "NCCL {version} bears it, and is asked by itself while the job stands still."
MOVING = "the counts move: the job launches collectives, and what differs between ranks means nothing"
EVEN = (
    "all ranks launched the same: the lag is in Send and Recv or in CUDA graphs, which RAS does not count, on a GPU or "
    "in the network"
)
_LINE = re.compile(r"^\S{1,300}:\d{1,10} NCCL DIAG (.*)$")


class RasSession(ProbeSession, Protocol):
    """What asking RAS needs of a session."""

    witnesses: Witnesses

    def now(self) -> float:
        """Seconds since the epoch, by the session's clock."""


def counts(session: RasSession, *, apart: float = APART) -> Probe:
    """What each rank has launched, asked some times. Raises :class:`ProbeRefused` where the job's NCCL has no RAS."""
    asked = _asked_rank(session.job(), RAS_SINCE, "RAS")
    where = ras.address(asked.process.env.get("NCCL_RAS_ADDR", ""))
    version = asked.process.versions.get("nccl", "")

    async def run(_: Say) -> ProbeResult:
        _refuse_read_only(session)
        looks: list[Look[RasReport]] = []
        for left in reversed(range(POLLS)):
            try:
                node, python = session.transport(asked.node), session.python(asked.node)
                report = await ras.ask(node, python, asked.process.pid, where, session.now())
            except TransportError as error:
                raise ProbeRefused(str(error)) from None
            if not about(report, session.job().ranks):
                raise ProbeRefused(f"{asked.node}: RAS answers about processes that are not this job's")
            session.witnesses.counted(report)
            looks.append(Look(session.now(), report))
            if left:
                await asyncio.sleep(apart)
        return _result("NCCL's RAS", _told(looks, session.job()))

    brief = (
        f"NCCL's RAS tells {POLLS} times what each rank has launched, through {rank_text(asked.rank)} on {asked.node}"
    )
    risk = (CRASHES if release(version) < RAS_SAFE else BEARS_IT).format(version=version)
    return Probe("NCCL's RAS", brief, _command(asked, where, "VERBOSE STATUS"), run, risk, (asked.node,))


def diagnostics(session: RasSession) -> Probe:
    """RAS's own checks. Raises :class:`ProbeRefused` where the job's NCCL has none."""
    asked = _asked_rank(session.job(), DIAGNOSTICS_SINCE, "DIAGNOSTICS")
    where = ras.address(asked.process.env.get("NCCL_RAS_ADDR", ""))

    async def run(_: Say) -> ProbeResult:
        _refuse_read_only(session)
        try:
            said = await ras.command(
                session.transport(asked.node), session.python(asked.node), asked.process.pid, where, "DIAGNOSTICS",
                seconds=DIAGNOSTICS_SECONDS,
            )  # fmt: skip
        except TransportError as error:
            raise ProbeRefused(str(error)) from None
        lines = [line for line in said.splitlines() if line]
        if not lines:
            raise ProbeRefused("RAS closed the connection without a word")
        if lines[0].startswith(("ERROR", "BUSY")):
            raise ProbeRefused(f"RAS answers {lines[0]}")
        return _result("NCCL's diagnostics", _report(lines))

    brief = (
        "every process of the job compares its GPUs, driver, ECC errors, NVLinks and NCCL settings, through "
        f"{rank_text(asked.rank)} on {asked.node}"
    )
    risk = (
        "Each process's RAS thread reads its GPU's state by NVML; no data path is used and nothing is changed. "
        "What a driver that hangs holds up, this may wait for, too."
    )
    return Probe("NCCL's diagnostics", brief, _command(asked, where, "DIAGNOSTICS"), run, risk, (asked.node,))


def _result(title: str, lines: Sequence[str]) -> ProbeResult:
    return ProbeResult(title, "ok", lines[0], text_lines(lines), {"lines": list(lines)})


def _refuse_read_only(session: ProbeSession) -> None:
    if session.options.read_only:
        raise ProbeRefused("--read-only refuses to ask NCCL's RAS")


def _command(asked: Rank, where: tuple[str, int], line: str) -> str:
    """How a person would send this line to the RAS of that rank."""
    host, port = where
    there = f"on {asked.node}, from the network namespace of process {asked.process.pid}"
    return f"{there}: echo '{line}' | nc {quote(host)} {port}"


def _asked_rank(job: Job, since: tuple[int, ...], what: str) -> Rank:
    """The rank through which RAS is asked. Raises :class:`ProbeRefused` where none has it, saying what has it."""
    living = [rank for rank in job.ranks if rank.gone_at is None]
    versions = {rank.process.versions.get("nccl", "") for rank in living}
    fits = [rank for rank in living if release(rank.process.versions.get("nccl", "")) >= since]
    name = ".".join(map(str, since))
    if not living:
        raise ProbeRefused("no rank runs")
    if not fits:
        known = ", ".join(sorted(versions - {""})) or "no NCCL whose version is known"
        raise ProbeRefused(f"{what} came with NCCL {name}; the ranks have {known}")
    if any(rank.process.env.get("NCCL_RAS_ENABLE", "").strip() == "0" for rank in fits):
        raise ProbeRefused("NCCL_RAS_ENABLE=0 is set: RAS is off; leave it out of the next run")
    return min(fits, key=lambda rank: rank.rank)


def _report(lines: list[str]) -> list[str]:
    """A report without what every line begins with; what asks for a look first."""
    told = [found.group(1) if (found := _LINE.match(line)) else line for line in lines]
    if not any("RAS diagnostics completed" in line for line in told):
        told.append("the report was cut off: it has no closing line")
    return sorted(told, key=lambda line: not line.startswith("[INFO]"))


def _told(looks: Sequence[Look[RasReport]], job: Job) -> list[str]:
    """The answers in lines: who launched less of what, who is away, and what even counts mean."""
    owners = Owners(job)
    lines = []
    for one in behind(looks):
        less = [one.members[rank] for rank in one.least]
        low, high = min(one.counts.values()), max(one.counts.values())
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
        seen = [[one.ranks for one in look.value.communicators] for look in looks]
        lines.append(MOVING if any(one != seen[0] for one in seen) else EVEN)
    return [f"NCCL {last.nccl}, {count(len(last.communicators), 'communicator')}", *lines]


def _names(members: Sequence[RasRank], owners: Owners) -> str:
    """Ranks of the job, else their places in the communicator with host and pid."""
    ranks = owners.of_members(members)
    if len(ranks) == len(members):
        return ranks_text(ranks)
    return ", ".join(f"member {one.rank} (pid {one.pid} on {one.host or 'a node'})" for one in members[:8])
