"""Stacks of one node's ranks, on demand: what cannot be seen comes back as a dump with an error, which is evidence."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from collectors.fleet.transport import TransportError
from collectors.samples.stacks import StackDump
from hangtop.session.feed import Feed


@dataclass(frozen=True, slots=True)
class Glance:
    """How to look at stacks."""

    native: bool = False
    """With native frames, which pauses a process for some milliseconds."""
    samples: int = 1
    unasked: bool = False
    """Nobody asked for it: it only reads, and never pauses a process."""
    py_spy: str = ""
    """py-spy on the nodes; empty looks for one."""


async def dump_node(feed: Feed | None, node: str, pids: Sequence[int], glance: Glance) -> list[StackDump]:
    """Look at these processes of one node and at what they wait for."""
    # Imported here: the probe brings the payload's machinery, which the first frame does not need.
    from collectors.probes.stacks import Manner, dump

    if feed is None:
        return [no_dump(pid, "unreachable: this session has no connections") for pid in pids]
    manner = Manner(native=glance.native, blocking=not glance.unasked, samples=glance.samples, py_spy=glance.py_spy)
    try:
        return await dump(feed.transport(node), pids, manner=manner, python=feed.python(node))
    except TransportError as error:
        return [no_dump(pid, f"unreachable: {error}") for pid in pids]


def no_dump(pid: int, error: str) -> StackDump:
    """The answer of a process that could not be looked at."""
    return StackDump(
        pid=pid,
        rank_pid=pid,
        at=time.time(),
        method="none",
        state="",
        wchan="",
        syscall="",
        cpu=0.0,
        error=error,
        threads=[],
    )
