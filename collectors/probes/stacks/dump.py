"""The local half of a dump: ships the dumper to a node, lends it a py-spy where it has none, takes the answers."""

from __future__ import annotations

import time
from collections.abc import Sequence

from collectors.fleet.transport import Transport
from collectors.node.stacks.stackdump import DumpRequest
from collectors.probes.stacks.dumper import DumpOrder, carry_out
from collectors.probes.stacks.lender import loan
from collectors.samples.stacks import StackDump

NATIVE_DEADLINE = 20.0
"""Seconds that one py-spy may take with native frames."""
_START_SECONDS = 20.0
_ANY = DumpRequest()


async def dump(
    transport: Transport, pids: Sequence[int], request: DumpRequest = _ANY, *, python: str = "python3"
) -> list[StackDump]:
    """Look at these processes of one node, all at once, as ``request`` says.

    Every pid gets an answer, frames or an ``error``; helpers that a process waits for come too. Times are the node's.
    Raises :class:`~collectors.fleet.transport.TransportError` when the node cannot be reached or the program not be
    started.
    """
    dumps: list[StackDump] = []
    asked = _of(pids, request)
    # its own deadlines pass long before, unless the link is cut
    limit = _START_SECONDS + asked.samples * (asked.gap + asked.deadline * (2 + len(pids) / 8))
    why = await carry_out(DumpOrder(asked, python, limit, loan), transport, dumps.append)
    answered = {sample.pid for sample in dumps}
    dumps.extend(_unanswered(pid, why or "no word of it") for pid in pids if pid not in answered)
    return dumps


def _of(pids: Sequence[int], request: DumpRequest) -> DumpRequest:
    deadline = max(request.deadline, NATIVE_DEADLINE) if request.native else request.deadline
    return request._replace(targets=[[pid, pid] for pid in pids], deadline=deadline)


def _unanswered(pid: int, why: str) -> StackDump:
    """No word on the process itself: it is the node that did not answer, which says nothing of its ranks."""
    return StackDump(pid, pid, time.time(), "none", "", "", "", 0.0, f"unreachable: {why}", [])
