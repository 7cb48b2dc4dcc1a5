"""What a job's own libraries can be asked for: flight recorder dumps, and NCCL's RAS.

Both only read: a dump that lies on a node's disk is fetched, and RAS is asked gently, by one node for the whole job.
A *fresh* dump is written by the ranks, through the pipe that a job arms for that: it is asked for by a key press or a
command, and once a wait by itself where a job hangs and no rank is odd.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

from collectors.fleet.transport import TransportError
from collectors.formats import BadFormat
from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.stacks import StackDump
from hangtop.session.feed import AskingSession
from hangtop.session.job_selection import RankOfJob
from hangtop.session.state.job_state import RankState
from hangtop.session.store import shift_of

if TYPE_CHECKING:
    from collectors.probes.recorder.fetch import Dump

RAS_SINCE = (2, 24)
RAS_SAFE = (2, 29)
"""Older ones can crash when they are asked and are left alone: NVIDIA/nccl#1669, #1718 and #1762. The last, a wrong
step over ranks that are missing (``rasClientRunComms``), is in 2.28.9 yet, for JSON, too; 2.29.2 has it right."""
RAS_SEEK = 5.0
"""Seconds between two looks for ranks that have RAS, while none has."""
RAS_PERIOD = 15.0
"""Seconds between two questions; three answers in which counts stand still are needed to call a mismatch a hang."""
RAS_DOORS = 3
"""Nodes at which RAS is asked, at the most, where the first has no answer about this job,"""
RAS_PATIENCE = 5.0
"""if that was not slow to come: seconds."""
RAS_RETRY = 120.0
"""Seconds after which a job whose RAS did not answer is asked again."""


CLOCKS = 1.0
"""Seconds by which the start of a process, reckoned from that of its machine, may be off."""
ANSWER_SEEN = 2.5
"""Seconds after which samples no longer tell of the dump that a rank was asked to write."""


class JobSources:
    """Asks for a session, and puts the answers into its state."""

    def __init__(self, session: AskingSession) -> None:
        self._session = session
        self._ras_at = 0.0
        self.ras_fault = ""
        """Why RAS could not be asked the last time; empty when it answered or there is none to ask."""
        self._reading = asyncio.Lock()
        """Dumps are read one at a time: each may take 256 MB while it is."""

    async def recorders(self, *, fresh: bool = False) -> list[Dump]:
        """Fetch the dumps of all living ranks; those that can be read go into ``state.recorders``.

        Returns what every rank had, its size instead of its bytes, or why it has nothing: for the person who asked.
        """
        by_node: dict[str, list[RankState]] = {}
        for rank in self._session.living():
            by_node.setdefault(rank.node, []).append(rank)
        parts = await asyncio.gather(*(self._of_node(node, ranks, fresh) for node, ranks in by_node.items()))
        return [dump for part in parts for dump in part]

    async def _of_node(self, node: str, ranks: list[RankState], fresh: bool) -> list[Dump]:
        # Imported here: the probe brings the payload's machinery, which the first frame does not need.
        from collectors.probes.recorder.fetch import Dump, fetch

        session = self._session
        shift = session.state.nodes[node].clock_offset or 0.0
        # torch writes the number of the rank into the name of a dump: without one there is none to look for
        ranks = [rank for rank in ranks if rank.process.rank >= 0]
        rows = [(rank.process.rank, rank.process.pid, rank.process.started + shift) for rank in ranks]
        answering = session.state.nodes[node].answering
        if fresh:
            answering.update((rank.process.pid, inf) for rank in ranks)
        try:
            dumps = await fetch(session.transport(node), session.python(node), rows, fresh=fresh)
        except TransportError as error:
            return [Dump(node, rank.process.rank, "", None, b"", "", str(error)) for rank in ranks]
        finally:
            answering.update((pid, session.now() + ANSWER_SEEN) for _, pid, _ in rows if fresh)
        kept: list[Dump] = []
        while dumps:  # each is let go once it is read
            dump = dumps.pop(0)
            why = await self.keep(dump) if dump.data else ""
            kept.append(replace(dump, data=b"", why=why or dump.why))
        return kept

    def looked(self, node: str, dumps: Sequence[StackDump]) -> None:
        """Take stacks that ranks wrote themselves, with times of their node's clock."""
        shift = shift_of(self._session.state.nodes[node].clock_offset)
        self._session.stacks(node, [dump._replace(at=dump.at - shift) for dump in dumps])

    async def keep(self, dump: Dump) -> str:
        """Put a dump that a rank wrote into the session; one that cannot be read is counted as a bad line.

        Why it was not kept, though it can be read; empty where it was.
        """
        from collectors.formats import flight_recorder  # with the probe, after the first frame

        try:
            # Megabytes of somebody else's opcodes: not on the event loop.
            async with self._reading:
                read = await asyncio.to_thread(flight_recorder.read, dump.data, f"{dump.node}:{dump.path}", dump.rank)
        except BadFormat as error:
            self._session.bad_line(dump.node, dump.path, str(error))
            return ""
        if self._of_another_run(dump.node, read):
            return "its first collective is older than the process of this rank: another run wrote it"
        self._session.take_report(read._replace(written=dump.modified))
        return ""

    def _of_another_run(self, node: str, dump: RecorderDump) -> bool:
        """Whether a dump holds what was called before the rank's process began.

        Runs of one home have one place for their dumps: what another one writes when it ends is newer than this job.
        """
        own = [rank for rank in self._session.living() if (rank.node, rank.process.rank) == (node, dump.rank)]
        if not own:
            return False
        began = min(rank.process.started for rank in own) + (self._session.state.nodes[node].clock_offset or 0.0)
        first = min((each.created for each in dump.collectives if each.created is not None), default=inf)
        return first < began - CLOCKS

    async def ras(self, again: float = RAS_PERIOD) -> RasReport | None:
        """Ask RAS once, if the job has it and it is time; an answer about other processes is not this job's.

        ``again``: seconds from now at which the next question may come, if this one is answered.
        """
        session = self._session
        now = session.now()
        if now < self._ras_at:
            return None
        self._ras_at = now + RAS_SEEK
        # Ranks share the table of their versions: no need to look at each of thousands to see that none has it.
        every = (rank.process.versions for node in session.state.nodes.values() for rank in node.ranks.values())
        if not any(map(has_ras, {id(versions): versions for versions in every}.values())):
            return None
        ranks = [rank for rank in session.living() if has_ras(rank.process.versions)]
        if not ranks:
            return None
        oldest = min((rank.process.versions.get("nccl", "") for rank in ranks), key=release)
        if release(oldest) < RAS_SAFE:
            self._ras_at = now + RAS_RETRY
            self.ras_fault = f"NCCL {oldest} can crash a job that is asked for its state: RAS is not asked"
            return None
        self._ras_at = now + again
        for asked in doors(ranks):
            report = await self._ask(asked, ranks, now)
            if report is not None:
                self.ras_fault = ""
                session.take_report(report)
                return report
            if session.now() - now > RAS_PATIENCE:
                break
        self._ras_at = now + RAS_RETRY
        return None

    async def _ask(self, asked: RankState, ranks: Sequence[RankState], now: float) -> RasReport | None:
        """The answer that this rank's RAS has about the job; None, and ``ras_fault``, where it has none."""
        from collectors.probes import ras

        session = self._session
        try:
            where = ras.address(asked.process.env.get("NCCL_RAS_ADDR", ""))
            node, python = session.transport(asked.node), session.python(asked.node)
            report = await ras.ask(node, python, asked.process.pid, where, now)
        except TransportError as error:
            self.ras_fault = str(error)
            return None
        if not about(report, ranks):
            self.ras_fault = f"{asked.node}: RAS answers about processes that are not this job's"
            return None
        return report


def doors(ranks: Iterable[RankState]) -> list[RankState]:
    """The ranks to ask through, in this order: RAS answers for the whole job at every node.

    Of each node the first, for another job there may have its port; few, for they are asked one after another.
    """
    first: dict[str, RankState] = {}
    for rank in sorted(ranks, key=lambda one: one.process.rank):
        first.setdefault(rank.node, rank)
    return list(first.values())[:RAS_DOORS]


def has_ras(versions: Mapping[str, str]) -> bool:
    """Whether a rank's NCCL has RAS."""
    return release(versions.get("nccl", "")) >= RAS_SINCE


def about(report: RasReport, ranks: Iterable[RankOfJob]) -> bool:
    """Whether a report is about these ranks: several jobs of one user on a node share the port."""
    told = {member.pid for communicator in report.communicators for member in communicator.ranks if member.pid > 0}
    return any((rank.process.own_pid or rank.process.pid) in told for rank in ranks)


@lru_cache(64)
def release(version: str) -> tuple[int, ...]:
    """The first two numbers of a version, to compare by; empty for none."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
