"""Asks NCCL's RAS socket of a node for its report of the whole job.

The protocol is plain text over TCP (NCCL 2.24 and newer, docs/userguide troubleshooting/ras.rst): commands in
lines, an answer, the end. JSON came with 2.28.7; an older server answers that it does not know the command, and is
asked for text.
"""

from __future__ import annotations

from collectors.fleet.clean import clean
from collectors.fleet.transport import Transport, TransportError
from collectors.formats import BadFormat, ras
from collectors.samples.collectives import RasReport

ADDRESS = ("localhost", 28028)
"""NCCL_RAS_ADDR's default."""
SECONDS = 12.0
"""RAS itself takes up to 10 s when ranks do not answer it."""
_JSON = b"CLIENT PROTOCOL 2\nSET FORMAT json\nVERBOSE STATUS\n"
_TEXT = b"VERBOSE STATUS\n"


def address(setting: str) -> tuple[str, int]:
    """Host and port of an NCCL_RAS_ADDR (``host:port``, ``[::1]:port``); the default for an empty or broken one."""
    host, colon, port = setting.rpartition(":")
    if not colon or not port.isdecimal() or not host:
        return ADDRESS
    return host.strip("[]"), int(port)


async def ask(transport: Transport, where: tuple[str, int], at: float) -> RasReport:
    """One report. Raises :class:`TransportError` when nobody answers there, or not with a report."""
    why = ""
    for request in (_JSON, _TEXT):
        answer = await transport.open_tcp(*where, send=request, timeout=SECONDS)
        try:
            return ras.parse(clean(answer.decode("utf-8", "replace")), node=transport.name, at=at)
        except BadFormat as error:
            why = str(error)
    raise TransportError(f"{transport.name}: the RAS socket {where[0]}:{where[1]}: {why}")
