"""The sources that a session can ask about a job: stacks of its ranks, flight recorder dumps, and NCCL's RAS.

All of them only read: the session's own samples of stacks pause no rank unless they need native frames, dumps are
fetched from a node's disk, and one node asks RAS for the whole job. A *fresh* dump is written by the ranks, through the
pipe that a job can arm: the user requests it by a key press or a command, and hangtop itself once per wait if no
culprit is named.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from collectors.fleet.transport import TransportError
from collectors.formats import BadFormat
from collectors.samples.collectives import RasReport, RecorderDump
from collectors.samples.stacks import StackDump
from hangtop.diagnosis.node import Rank
from hangtop.diagnosis.phrasing import count
from hangtop.session.apply.clock import shift_of

if TYPE_CHECKING:  # the probes bring the payload's machinery, which the first frame does not need
    from collectors.probes.recorder import Dump
    from collectors.probes.stacks import DumpRequest
    from hangtop.session.session import Session

RAS_SAFE = (2, 29)
"""Older NCCL can crash when its RAS is asked (NVIDIA/nccl#1669, #1718, #1762), so hangtop does not ask it."""
RAS_GAP, RAS_PERIOD, RAS_RETRY = 1.5, 15.0, 120.0
"""Seconds from an answer to the next question until enough answers show whether counts stand still; later between two
series of questions; and until RAS is asked again after it did not answer."""
CLOCK_SLACK = 1.0
"""Seconds by which the start of a process, computed from its machine's boot time, may be off."""


class JobSources:
    """Asks the sources for a session, and puts their answers into its state."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ras_at = 0.0
        self._looking: Counter[str] = Counter()
        """Samples of stacks that are under way, by node."""
        self._reading = asyncio.Lock()
        """Dumps are parsed one at a time: each may take 256 MB meanwhile."""

    # --- stacks --------------------------------------------------------------------------------------------------

    async def stacks(
        self, ranks: Collection[int] | None, *, native: bool = False, samples: int = 1, unasked: bool = False
    ) -> list[tuple[str, StackDump]]:
        """Read the stacks of these ranks, or of all; ``native`` frames pause a process for some milliseconds.

        A slow node delays only the caller. An ``unasked`` sample, or any sample in a read-only session, does not pause
        processes for Python frames; an unasked sample skips nodes that still work on an earlier one. For a node that
        cannot be reached the dumps have an ``error``: that is evidence.
        """
        from collectors.probes.stacks import DumpRequest

        session, options = self._session, self._session.options
        pauses = not (unasked or options.read_only)
        request = DumpRequest(native=native, blocking=pauses, samples=samples, sudo=options.sudo)
        pids: dict[str, list[int]] = {}
        for rank in session.living():
            if (ranks is None or rank.process.rank in ranks) and not (unasked and self._looking[rank.node]):
                pids.setdefault(rank.node, []).append(rank.process.pid)
        parts = await asyncio.gather(*(self._stacks_of(node, of, request) for node, of in pids.items()))
        dumps = [(node, dump) for node, part in zip(pids, parts, strict=True) for dump in part]
        if dumps and not unasked:
            seen = len({(node, dump.rank_pid) for node, dump in dumps})
            session.state.note(session.now(), f"stacks of {count(seen, 'rank')} were read", "dump")
        return dumps

    async def _stacks_of(self, node: str, pids: Sequence[int], request: DumpRequest) -> list[StackDump]:
        from collectors.probes.stacks import dump

        session = self._session
        self._looking[node] += 1
        try:
            dumps = await dump(session.transport(node), pids, request)
        except TransportError as error:
            why = f"unreachable: {error}"
            dumps = [StackDump(pid, pid, time.time(), "none", "", "", "", 0.0, why, []) for pid in pids]
        finally:
            self._looking[node] -= 1
        shift = shift_of(session.state.nodes[node].clock_offset)
        shifted = [dump._replace(at=dump.at - shift) for dump in dumps]
        # Native frames need more rights than Python frames: a refusal says nothing about a rank that can be read.
        session.stacks(node, [dump for dump in shifted if not (request.native and dump.error)])
        return shifted

    # --- flight recorders ----------------------------------------------------------------------------------------

    async def recorders(self, *, fresh: bool = False) -> list[Dump]:
        """Fetch the dumps of all living ranks; those that can be read go into ``state.recorders``.

        Returns one dump per rank for the user, without its bytes, or with ``why`` it has none.
        """
        by_node: dict[str, list[Rank]] = {}
        for rank in self._session.living():
            if rank.process.rank >= 0:  # torch puts the rank's number into the name of a dump
                by_node.setdefault(rank.node, []).append(rank)
        parts = await asyncio.gather(*(self._dumps_of(node, ranks, fresh) for node, ranks in by_node.items()))
        return [dump for part in parts for dump in part]

    async def _dumps_of(self, name: str, ranks: list[Rank], fresh: bool) -> list[Dump]:
        from collectors.probes.recorder import Dump, fetch

        session, node = self._session, self._session.state.nodes[name]
        rows = [(rank.process.rank, rank.process.pid, rank.process.started + (node.clock_offset or 0.0))
                for rank in ranks]  # fmt: skip
        for rank in ranks if fresh else ():
            rank.answers_until = inf
        try:
            dumps = await fetch(session.transport(name), rows, fresh=fresh)
        except TransportError as error:
            return [Dump(name, rank.process.rank, "", None, b"", "", str(error)) for rank in ranks]
        finally:
            if fresh:
                session.asked(name, (rank.process.pid for rank in ranks))
        kept: list[Dump] = []
        while dumps:  # each dump's memory is freed once it is parsed
            dump = dumps.pop(0)
            why = await self.keep(dump) if dump.data else ""
            kept.append(replace(dump, data=b"", why=why or dump.why))
        return kept

    async def keep(self, dump: Dump) -> str:
        """Put a dump that a rank wrote into the session; an unreadable dump is counted as a bad line.

        Returns why a readable dump was not kept; empty otherwise.
        """
        from collectors.formats import flight_recorder  # with the probe, after the first frame

        try:
            async with self._reading:  # megabytes of a foreign pickle: not on the event loop
                read = await asyncio.to_thread(flight_recorder.read, dump.data, f"{dump.node}:{dump.path}", dump.rank)
        except BadFormat as error:
            self._session.bad_line(dump.node, dump.path, str(error))
            return ""
        if self._of_another_run(dump.node, read):
            return "its first collective is older than the process of this rank: another run wrote it"
        self._session.take_report(read._replace(written=dump.modified))
        return ""

    def _of_another_run(self, node: str, dump: RecorderDump) -> bool:
        """Whether a dump has a collective from before the rank's process began: runs may share names of dumps."""
        of_rank = (rank for rank in self._session.living() if (rank.node, rank.process.rank) == (node, dump.rank))
        began = min((rank.process.started for rank in of_rank), default=-inf)
        first = min((each.created for each in dump.collectives if each.created is not None), default=inf)
        return first < began + (self._session.state.node(node).clock_offset or 0.0) - CLOCK_SLACK

    # --- RAS ----------------------------------------------------------------------------------------------------

    def ras_due(self) -> bool:
        """Whether the job has RAS, and it is due."""
        ranks = self._session.living()
        safe = bool(ranks) and all(has_safe_ras(rank.process.versions) for rank in ranks)
        return safe and self._session.now() >= self._ras_at

    async def ras(self) -> None:
        """Ask RAS, which must be due, until its answers show whether counts stand still with the job."""
        from hangtop.diagnosis.collectives.counts import POLLS

        session = self._session
        now, ranks = session.now(), session.living()
        self._ras_at = now + RAS_PERIOD
        while await self._ras_answers(ranks):
            still, now = session.progress.stood_still or 0.0, session.now()
            if still < RAS_GAP or sum(sample.at >= now - still for sample in session.state.ras) >= POLLS:
                break
            await asyncio.sleep(RAS_GAP)

    async def _ras_answers(self, ranks: Sequence[Rank]) -> bool:
        """Ask the RAS of one rank, which answers for the whole job; returns whether its report is about these ranks."""
        from collectors.probes import ras

        session, now = self._session, self._session.now()
        asked = min(ranks, key=lambda rank: rank.process.rank)
        where = ras.address(asked.process.env.get("NCCL_RAS_ADDR", ""))
        try:
            report = await ras.ask(session.transport(asked.node), asked.process.pid, where, now)
        except TransportError:
            report = None
        if report is None or not about(report, ranks):
            self._ras_at = now + RAS_RETRY
            return False
        session.take_report(report)
        return True


def has_safe_ras(versions: Mapping[str, str]) -> bool:
    """Whether a rank's NCCL has a RAS that hangtop may ask."""
    release = tuple(int(part) for part in re.findall(r"\d+", versions.get("nccl", ""))[:2])
    return release >= RAS_SAFE


def about(report: RasReport, ranks: Sequence[Rank]) -> bool:
    """Whether a report is about these ranks: several jobs of one user on a node share the port."""
    pids = {member.pid for communicator in report.communicators for member in communicator.ranks if member.pid > 0}
    return any((rank.process.own_pid or rank.process.pid) in pids for rank in ranks)
