"""Stacks of one node's ranks, on demand: what cannot be seen comes back as a dump with an error, which is evidence."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from collectors.fleet.transport import TransportError
from collectors.samples.stacks import StackDump
from hangtop.session.apply.clock import shift_of
from hangtop.session.feed import Feed

if TYPE_CHECKING:
    from hangtop.session.session import Session


@dataclass(frozen=True, slots=True)
class StackRequest:
    """How to look at stacks."""

    native: bool = False
    """With native frames, which pauses a process for some milliseconds."""
    samples: int = 1
    unasked: bool = False
    """Nobody asked for it: it only reads, and never pauses a process."""
    py_spy: str = ""
    """py-spy on the nodes; empty looks for one."""
    sudo: bool = False
    """``sudo -n`` may be tried where the login may not trace."""


class StackLooks:
    """The looks of one session, node by node; each node's dumps go into the session as they come."""

    def __init__(self, session: Session, feed: Feed | None) -> None:
        self._session = session
        self._feed = feed
        self._looking: Counter[str] = Counter()
        """Looks that are under way, by node."""

    async def dump(self, ranks: Collection[int] | None, request: StackRequest) -> list[tuple[str, StackDump]]:
        """Look at the stacks of these ranks, or of all.

        A slow node keeps nobody waiting but the caller. A look that is ``unasked`` only reads, and leaves out nodes
        that still work on an earlier one. A node that cannot be asked gives dumps with an ``error``: that is evidence.
        """
        pids = self._pids(ranks)
        if request.unasked:
            pids = {node: of for node, of in pids.items() if not self._looking[node]}
        parts = await asyncio.gather(*(self._look(node, of, request) for node, of in pids.items()))
        return [(node, dump) for node, dumps in zip(pids, parts, strict=True) for dump in dumps]

    def _pids(self, ranks: Collection[int] | None) -> dict[str, list[int]]:
        """Processes of these living ranks, or of all, by node."""
        pids: dict[str, list[int]] = {}
        for rank in self._session.living():
            if ranks is None or rank.process.rank in ranks:
                pids.setdefault(rank.node, []).append(rank.process.pid)
        return pids

    async def _look(self, node: str, pids: Sequence[int], request: StackRequest) -> list[StackDump]:
        self._looking[node] += 1
        try:
            dumps = await dump_node(self._feed, node, pids, request)
        finally:
            self._looking[node] -= 1
        shift = shift_of(self._session.state.nodes[node].clock_offset)
        shifted = [dump._replace(at=dump.at - shift) for dump in dumps]
        # Native frames need more rights than Python's: that they are refused says nothing of a rank that can be read.
        self._session.stacks(node, [dump for dump in shifted if not (request.native and dump.error)])
        return shifted


async def dump_node(feed: Feed | None, node: str, pids: Sequence[int], request: StackRequest) -> list[StackDump]:
    """Look at these processes of one node and at what they wait for."""
    # Imported here: the probe brings the payload's machinery, which the first frame does not need.
    from collectors.probes.stacks import DumpRequest, dump

    if feed is None:
        return [no_dump(pid, "unreachable: this session has no connections") for pid in pids]
    asked = DumpRequest(
        native=request.native, blocking=not request.unasked, samples=request.samples, py_spy=request.py_spy,
        sudo=request.sudo,
    )  # fmt: skip
    try:
        return await dump(feed.transport(node), pids, asked, python=feed.python(node))
    except TransportError as error:
        return [no_dump(pid, f"unreachable: {error}") for pid in pids]


def no_dump(pid: int, error: str) -> StackDump:
    """The answer of a process that could not be looked at."""
    return StackDump(pid, pid, time.time(), "none", "", "", "", 0.0, error, [])
