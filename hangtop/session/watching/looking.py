"""Stacks of the ranks, on demand: what cannot be seen comes back as a dump with an error, which is evidence."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from collectors.fleet.transport import TransportError
from collectors.samples.stacks import StackDump
from hangtop.diagnosis.phrasing import count
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

        session, options = self._session, self._session.options
        request = DumpRequest(
            native=native, blocking=not unasked, samples=samples, py_spy=options.py_spy or "", sudo=options.sudo
        )
        pids: dict[str, list[int]] = {}
        for rank in session.living():
            if (ranks is None or rank.process.rank in ranks) and not (unasked and self._looking[rank.node]):
                pids.setdefault(rank.node, []).append(rank.process.pid)
        parts = await asyncio.gather(*(self._of_node(node, of, request) for node, of in pids.items()))
        dumps = [(node, dump) for node, part in zip(pids, parts, strict=True) for dump in part]
        if dumps and not unasked:
            seen = len({(node, dump.rank_pid) for node, dump in dumps})
            session.state.note(session.now(), f"stacks of {count(seen, 'rank')} were read", "dump")
        return dumps

    async def _of_node(self, node: str, pids: Sequence[int], request: DumpRequest) -> list[StackDump]:
        from collectors.probes.stacks import dump

        session = self._session
        self._looking[node] += 1
        try:
            dumps = await dump(session.transport(node), pids, request, python=session.python(node))
        except TransportError as error:
            why = f"unreachable: {error}"
            dumps = [StackDump(pid, pid, time.time(), "none", "", "", "", 0.0, why, []) for pid in pids]
        finally:
            self._looking[node] -= 1
        shift = shift_of(session.state.nodes[node].clock_offset)
        shifted = [dump._replace(at=dump.at - shift) for dump in dumps]
        # Native frames need more rights than Python's: that they are refused says nothing of a rank that can be read.
        session.stacks(node, [dump for dump in shifted if not (request.native and dump.error)])
        return shifted
