"""Repairs of nodes: orphans of an earlier run, stopped ranks, a rendezvous port that is free on every node."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Literal

from collectors.fleet import payload
from collectors.fleet.transport import Transport
from collectors.probes.remote.repair import PortsInUse, RepairCandidate, Signalled
from collectors.probes.running import answer, collect

ENTRY = "collectors.probes.remote.repair"
LOOK_SECONDS = 15.0
GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL: a rank that saves at SIGTERM needs some."""
FIRST_PORT = 29500
"""torchrun's own default (torch.distributed.run)."""
PASSED = 6
"""Ports of which it is told why they were passed over."""

Signal = Literal["TERM", "CONT"]
_candidate = answer(RepairCandidate)
_signalled = answer(Signalled)
_ports = answer(PortsInUse)


def signal_command(pids: Sequence[int], signal: Signal) -> str:
    """What will be done on a node, as a shell would be told."""
    words = " ".join(str(pid) for pid in pids)
    return f"kill -CONT {words}" if signal == "CONT" else f"kill -TERM {words}; sleep {GRACE:g}; kill -KILL {words}"


def sender(python: str = "python3") -> str:
    """The program that sends the signals, as it is started on a node."""
    return shlex.join(payload.command(python))


async def look(transport: Transport, python: str, keep: Sequence[int]) -> list[RepairCandidate]:
    """Orphans and stopped processes of a node; ``keep`` are the pids of the running job's ranks there.

    Raises :class:`~collectors.fleet.transport.TransportError`, as all of these do.
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


async def ports_in_use(transport: Transport, python: str) -> PortsInUse:
    """TCP ports of a node that are not free."""
    (found,) = await collect(transport, python, ENTRY, {}, _ports, LOOK_SECONDS)
    return found


def choose_port(nodes: Mapping[str, PortsInUse], wanted: int = FIRST_PORT) -> tuple[int | None, list[str]]:
    """The first port from ``wanted`` on that is free on all nodes and that no kernel gives to clients meanwhile.

    Where the kernels' ranges leave none, the first free one. Also told: why the first ports were passed over.
    """
    used = {name: set(found.ports) for name, found in sorted(nodes.items())}
    passed: list[str] = []
    inside: int | None = None
    for port in chain(range(wanted, 65536), range(1024, wanted)):
        holders = [name for name, ports in used.items() if port in ports]
        risky = [name for name, found in sorted(nodes.items()) if found.lowest <= port <= found.highest]
        if not holders and not risky:
            return port, passed
        if not holders and inside is None:
            inside = port
        if len(passed) < PASSED:
            why = f"in use on {', '.join(holders)}" if holders else f"given to clients on {', '.join(risky)}"
            passed.append(f"{port}: {why}")
    return inside, passed
