"""Runs the repairs' programs on a node and takes their answers; :func:`signal_command` gives the exact command."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Literal

from collectors.fleet import payload
from collectors.fleet.transport import Transport
from collectors.probes.decoding import answer
from collectors.probes.gather import collect
from collectors.probes.repair.remote.words import Curable, PortsInUse, Signalled

_PACKAGE = "collectors.probes.repair.remote"
_curable = answer(Curable)
_signalled = answer(Signalled)
_ports = answer(PortsInUse)

LOOK_SECONDS = 15.0
GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL: a rank that saves at SIGTERM needs some."""

Signal = Literal["TERM", "CONT"]


def signal_command(pids: Sequence[int], signal: Signal, grace: float = GRACE) -> str:
    """What will be done on a node, as a shell would be told."""
    words = " ".join(str(pid) for pid in pids)
    if signal == "CONT":
        return f"kill -CONT {words}"
    return f"kill -TERM {words}; sleep {grace:g}; kill -KILL {words}"


def sender(python: str = "python3") -> str:
    """The program that sends the signals, as it is started on a node."""
    return shlex.join(payload.command(python))


async def look(transport: Transport, python: str, keep: Sequence[int], *, young: float | None = None) -> list[Curable]:
    """Orphans and stopped processes of a node; ``keep`` are the pids of the running job's ranks there.

    Raises :class:`~collectors.fleet.transport.TransportError`.
    """
    arguments: dict[str, object] = {"keep": list(keep)} | ({} if young is None else {"young": young})
    *found, _ = await collect(
        transport, python, f"{_PACKAGE}.look", arguments, _curable, LOOK_SECONDS, last=lambda one: one.what == "end"
    )
    return found


async def send(
    transport: Transport, python: str, signal: Signal, targets: Sequence[tuple[int, int]], *, grace: float = GRACE
) -> list[Signalled]:
    """Signal (pid, start ticks) on a node. Raises :class:`~collectors.fleet.transport.TransportError`."""
    arguments = {"signal": signal, "targets": [list(target) for target in targets], "grace": grace}
    *found, _ = await collect(
        transport, python, f"{_PACKAGE}.act", arguments, _signalled, grace + LOOK_SECONDS,
        last=lambda one: one.outcome == "end",
    )  # fmt: skip
    return found


async def ports_in_use(transport: Transport, python: str) -> PortsInUse:
    """TCP ports of a node that are not free. Raises :class:`~collectors.fleet.transport.TransportError`."""
    (found,) = await collect(transport, python, f"{_PACKAGE}.ports", {}, _ports, LOOK_SECONDS)
    return found
