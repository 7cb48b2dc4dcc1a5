"""What NCCL's RAS does by consent alone: its diagnostics.

``docs/userguide/source/troubleshooting/ras.rst`` of NVIDIA/nccl (2.31 and newer). One rank is asked for the whole job.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from shlex import quote

from collectors.fleet.transport import TransportError
from collectors.probes import ras
from hangtop.diagnosis.job import Job, Rank
from hangtop.diagnosis.phrasing import rank_text
from hangtop.session.asking.orders import WitnessRefused, WitnessSession, refuse_read_only
from hangtop.session.watching.ras_watch import release

SINCE = (2, 31)
"""The first NCCL whose RAS has them."""
DIAGNOSTICS_SECONDS = 60.0
_LINE = re.compile(r"^\S{1,300}:\d{1,10} NCCL DIAG (.*)$")


@dataclass(frozen=True, slots=True)
class RasOrder:
    """One line to RAS."""

    title: str
    line: str
    asked: Rank
    where: tuple[str, int]
    whole: bool
    seconds: float
    what: str
    """What is done, for people."""
    cost: str

    def brief(self) -> str:
        """Who is asked for what, in one line."""
        return f"{self.what}, through {rank_text(self.asked.rank)} on {self.asked.node}"

    def command(self) -> str:
        """The line, and where it goes."""
        return line_to(self.asked, self.where, self.line)

    def risk(self) -> str:
        """What it may do to the job."""
        return self.cost

    async def carry_out(self, session: WitnessSession) -> list[str]:
        """Send it; what RAS answers. Raises :class:`WitnessRefused` in a session that may only look."""
        refuse_read_only(session, self.title)
        asked = self.asked
        try:
            node, python = session.transport(asked.node), session.python(asked.node)
            said = await ras.command(
                node, python, asked.process.pid, self.where, self.line, whole=self.whole, seconds=self.seconds
            )
        except TransportError as error:
            raise WitnessRefused(str(error)) from None
        lines = [line for line in said.splitlines() if line]
        if not lines:
            raise WitnessRefused("RAS closed the connection without a word")
        if lines[0].startswith(("ERROR", "BUSY")):
            raise WitnessRefused(f"RAS answers {lines[0]}")
        return _report(lines) if self.whole else [f"RAS answers {lines[0]}: it tells all processes of the job"]


def line_to(asked: Rank, where: tuple[str, int], line: str) -> str:
    """How a person would send this line to the RAS of that rank."""
    host, port = where
    there = f"on {asked.node}, from the network namespace of process {asked.process.pid}"
    return f"{there}: echo '{line}' | nc {quote(host)} {port}"


def _report(lines: list[str]) -> list[str]:
    """A report without what every line begins with; what asks for a look first."""
    told = [found.group(1) if (found := _LINE.match(line)) else line for line in lines]
    if not any("RAS diagnostics completed" in line for line in told):
        told.append("the report was cut off: it has no closing line")
    notable = [line for line in told if line.startswith("[INFO]")]
    return [*notable, *(line for line in told if line not in notable)]


def asked_rank(job: Job, since: tuple[int, ...], what: str) -> Rank:
    """The rank through which RAS is asked. Raises :class:`WitnessRefused` where none has it, saying what has it."""
    living = [rank for rank in job.ranks if rank.gone_at is None]
    versions = {rank.process.versions.get("nccl", "") for rank in living}
    fits = [rank for rank in living if release(rank.process.versions.get("nccl", "")) >= since]
    name = ".".join(map(str, since))
    if not living:
        raise WitnessRefused("no rank runs")
    if not fits:
        known = ", ".join(sorted(versions - {""})) or "no NCCL whose version is known"
        raise WitnessRefused(f"{what} came with NCCL {name}; the ranks have {known}")
    if any(rank.process.env.get("NCCL_RAS_ENABLE", "").strip() == "0" for rank in fits):
        raise WitnessRefused("NCCL_RAS_ENABLE=0 is set: RAS is off; leave it out of the next run")
    return min(fits, key=lambda rank: rank.rank)


def diagnostics(session: WitnessSession) -> RasOrder:
    """RAS's own checks. Raises :class:`WitnessRefused` where the job's NCCL has none."""
    asked = asked_rank(session.job(), SINCE, "DIAGNOSTICS")
    return RasOrder(
        "NCCL's diagnostics", "DIAGNOSTICS", asked, ras.address(asked.process.env.get("NCCL_RAS_ADDR", "")),
        whole=True, seconds=DIAGNOSTICS_SECONDS,
        what="every process of the job compares its GPUs, driver, ECC errors, NVLinks and NCCL settings",
        cost="Each process's RAS thread reads its GPU's state by NVML; no data path is used and nothing is changed. "
        "What a driver that hangs holds up, this may wait for, too.",
    )  # fmt: skip
