"""Repairs of nodes: orphans of an earlier run, stopped ranks."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Literal

from collectors.fleet import payload
from collectors.fleet.transport import Transport
from collectors.probes.remote.repair import RepairCandidate, Signalled
from collectors.probes.running import answer, collect

ENTRY = "collectors.probes.remote.repair"
LOOK_SECONDS = 15.0
GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL: a rank that saves at SIGTERM needs some."""

Signal = Literal["TERM", "CONT"]
_candidate = answer(RepairCandidate)
_signalled = answer(Signalled)


def signal_command(pids: Sequence[int], signal: Signal) -> str:
    """What will be done on a node, as a shell would be told."""
    words = " ".join(str(pid) for pid in pids)
    return f"kill -CONT {words}" if signal == "CONT" else f"kill -TERM {words}; sleep {GRACE:g}; kill -KILL {words}"


def sender(python: str = "python3") -> str:
    """The program that sends the signals, as it is started on a node."""
    return shlex.join(payload.command(python))


async def look(transport: Transport, python: str, keep: Sequence[int]) -> list[RepairCandidate]:
    """Orphans and stopped processes of a node; ``keep`` are the pids of the running job's ranks there.

    Raises :class:`~collectors.fleet.transport.TransportError`, as :func:`send` does.
    """
    *found, _ = await collect(
        transport, python, ENTRY, {"keep": list(keep)}, _candidate, LOOK_SECONDS, last=lambda one: one.what == "end"
    )
    return found


async def send(
    transport: Transport, python: str, signal: Signal, targets: Sequence[tuple[int, int]], *, grace: float = GRACE
) -> list[Signalled]:
    """Signal (pid, start ticks) on a node."""
    arguments = {"signal": signal, "targets": [list(target) for target in targets], "grace": grace}
    *found, _ = await collect(
        transport, python, ENTRY, arguments, _signalled, grace + LOOK_SECONDS, last=lambda one: one.outcome == "end"
    )
    return found
