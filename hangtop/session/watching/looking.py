"""Stacks of the ranks, on demand: what cannot be seen comes back as a dump with an error, which is evidence."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from collectors.fleet.transport import TransportError
from collectors.samples.stacks import StackDump
from hangtop.session.apply.clock import shift_of

if TYPE_CHECKING:
    from collectors.probes.stacks import DumpRequest
    from hangtop.session.session import Session


class StackLooks:
    """The looks of one session, node by node; each node's dumps go into the session as they come."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._looking: Counter[str] = Counter()
        """Looks that are under way, by node."""

    async def dump(
        self, ranks: Collection[int] | None, *, native: bool, samples: int, unasked: bool
    ) -> list[tuple[str, StackDump]]:
        """Look at the stacks of these ranks, or of all; ``native`` frames pause a process for some milliseconds.

        A slow node keeps nobody waiting but the caller. A look that is ``unasked`` only reads, never pauses a process,
        and leaves out nodes that still work on an earlier one. A node that cannot be asked gives dumps with an
        ``error``: that is evidence.
        """
        # Imported here: the probe brings the payload's machinery, which the first frame does not need.
        from collectors.probes.stacks import DumpRequest

        options = self._session.options
        request = DumpRequest(
            native=native, blocking=not unasked, samples=samples, py_spy=options.py_spy or "", sudo=options.sudo
        )
        pids: dict[str, list[int]] = {}
        for rank in self._session.living():
            if (ranks is None or rank.process.rank in ranks) and not (unasked and self._looking[rank.node]):
                pids.setdefault(rank.node, []).append(rank.process.pid)
        parts = await asyncio.gather(*(self._look(node, of, request) for node, of in pids.items()))
        return [(node, dump) for node, dumps in zip(pids, parts, strict=True) for dump in dumps]

    async def _look(self, node: str, pids: Sequence[int], request: DumpRequest) -> list[StackDump]:
        self._looking[node] += 1
        try:
            dumps = await self._asked(node, pids, request)
        finally:
            self._looking[node] -= 1
        shift = shift_of(self._session.state.nodes[node].clock_offset)
        shifted = [dump._replace(at=dump.at - shift) for dump in dumps]
        # Native frames need more rights than Python's: that they are refused says nothing of a rank that can be read.
        self._session.stacks(node, [dump for dump in shifted if not (request.native and dump.error)])
        return shifted

    async def _asked(self, node: str, pids: Sequence[int], request: DumpRequest) -> list[StackDump]:
        from collectors.probes.stacks import dump

        try:
            transport, python = self._session.transport(node), self._session.python(node)
            return await dump(transport, pids, request, python=python)
        except TransportError as error:
            why = f"unreachable: {error}"
            return [StackDump(pid, pid, time.time(), "none", "", "", "", 0.0, why, []) for pid in pids]
