"""Request NCCL's RAS report of the whole job from its socket, through ``collectors.node.nccl.ras`` on a node."""

from __future__ import annotations

import base64
import binascii

from collectors.fleet.clean import clean
from collectors.fleet.transport import Transport, TransportError
from collectors.formats import BadFormat, ras
from collectors.probes.running import Limits, answer, collect
from collectors.samples.collectives import RasReport
from collectors.samples.probes import RasAnswer

ENTRY = "collectors.node.nccl.ras"
ADDRESS = ("localhost", 28028)
"""Default of NCCL_RAS_ADDR."""
SECONDS = 20.0
"""Time-out for RAS and for the start of the program."""
LIMITS = Limits(line=48 << 20, total=48 << 20)
"""A report has at most 32 MiB, and arrives in base 64."""
_answered = answer(RasAnswer)


def address(setting: str) -> tuple[str, int]:
    """Host and port of an NCCL_RAS_ADDR (``host:port``, ``[::1]:port``); the default for an empty or broken one."""
    host, colon, port = setting.rpartition(":")
    if not colon or not port.isdecimal() or not host:
        return ADDRESS
    return host.strip("[]"), int(port)


async def ask(transport: Transport, pid: int, where: tuple[str, int], at: float) -> RasReport:
    """One report, requested in the network namespace of this process.

    Raises :class:`TransportError` without an answer, or if the answer is no report.
    """
    host, port = where
    arguments = {"pid": pid, "host": host, "port": port}
    try:
        (reply,) = await collect(transport, ENTRY, arguments, _answered, SECONDS, limits=LIMITS)
        if not (why := clean(reply.why)):
            said = base64.b64decode(reply.data, validate=True).decode("utf-8", "replace")
            return ras.parse(clean(said), at=at)
    except (BadFormat, binascii.Error, ValueError) as error:
        why = str(error)
    raise TransportError(f"{transport.name}: the RAS socket {host}:{port}: {why}")
