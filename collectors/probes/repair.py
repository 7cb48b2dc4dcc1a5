"""Repairs of nodes: signals to orphans of an earlier run and to stopped ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from collectors.fleet.transport import Transport
from collectors.probes.remote.repair import Signalled
from collectors.probes.running import answer, collect

ENTRY = "collectors.probes.remote.repair"
SECONDS = 15.0
GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL: a rank that saves at SIGTERM needs some."""

Signal = Literal["TERM", "CONT"]
_signalled = answer(Signalled)


def signal_command(pids: Sequence[int], signal: Signal) -> str:
    """What will be done on a node, as a shell would be told."""
    words = " ".join(map(str, pids))
    return f"kill -CONT {words}" if signal == "CONT" else f"kill -TERM {words}; sleep {GRACE:g}; kill -KILL {words}"


async def send(
    transport: Transport, python: str, signal: Signal, targets: Sequence[tuple[int, float]], *, grace: float = GRACE
) -> list[Signalled]:
    """Signal (pid, start by the node's clock) on a node. Raises :class:`~collectors.fleet.transport.TransportError`."""
    arguments = {"signal": signal, "targets": [list(target) for target in targets], "grace": grace}
    *found, _ = await collect(
        transport, python, ENTRY, arguments, _signalled, grace + SECONDS, last=lambda one: one.outcome == "end"
    )
    return found
