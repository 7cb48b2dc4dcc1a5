"""Asks NCCL's RAS socket, through ``collectors.node.nccl.ras`` on a node, for its report of the whole job."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from collectors.fleet import payload
from collectors.fleet.clean import clean
from collectors.fleet.transport import Transport, TransportError
from collectors.formats import BadFormat, ras
from collectors.probes import decoding
from collectors.probes.gather import collect
from collectors.probes.running import Limits, Running
from collectors.samples.asked import RasAnswer, RasListening
from collectors.samples.collectives import RasEvent, RasReport

ENTRY = "collectors.node.nccl.ras"
ADDRESS = ("localhost", 28028)
"""NCCL_RAS_ADDR's default."""
SECONDS = 30.0
"""Both requests, each as long as RAS may take, and starting the program."""
MONITOR = "collectors.node.nccl.ras_monitor"
MONITOR_LIMITS = Limits(line=1 << 16)
LIMITS = Limits(line=48 << 20, total=48 << 20)
"""A report has 32 MiB at most, and comes in base 64."""
_answered = decoding.answer(RasAnswer)
_heard = decoding.one_of(RasEvent, RasListening)


def address(setting: str) -> tuple[str, int]:
    """Host and port of an NCCL_RAS_ADDR (``host:port``, ``[::1]:port``); the default for an empty or broken one."""
    host, colon, port = setting.rpartition(":")
    if not colon or not port.isdecimal() or not host:
        return ADDRESS
    return host.strip("[]"), int(port)


async def ask(transport: Transport, python: str, pid: int, where: tuple[str, int], at: float) -> RasReport:
    """One report, asked for from the network namespace of this process.

    Raises :class:`TransportError` when nobody answers there, or not with a report.
    """
    host, port = where
    arguments = {"pid": pid, "host": host, "port": port}
    (answer,) = await collect(transport, python, ENTRY, arguments, _answered, SECONDS, limits=LIMITS)
    why = clean(answer.why)
    try:
        if not why:
            said = base64.b64decode(answer.data, validate=True).decode("utf-8", "replace")
            return ras.parse(clean(said), node=transport.name, at=at)
    except (BadFormat, binascii.Error, ValueError) as error:
        why = str(error)
    raise TransportError(f"{transport.name}: the RAS socket {host}:{port}: {why}")


async def listen(
    transport: Transport, python: str, pid: int, where: tuple[str, int], take: Callable[[RasEvent], None],
    skipped: Callable[[int], None],
) -> str:  # fmt: skip
    """Hand on what RAS notices, as seen from this process, until RAS ends it; returns why it did.

    Cancelled, it ends the program on the node. ``skipped`` is told how many events were too many. Raises
    :class:`TransportError` when nobody answers there, or the connection breaks.
    """
    why: list[str] = []

    def hear(line: bytes) -> bool:
        said = _heard(line)
        if isinstance(said, RasEvent):
            take(said)
        elif said is not None and said.why:
            why.append(said.why)
        elif said is not None:
            skipped(said.left_out)
        return bool(why)

    host, port = where
    packed = payload.pack(MONITOR, {"pid": pid, "host": host, "port": port})
    async with Running(transport, payload.command(python), packed, hear, limits=MONITOR_LIMITS) as running:
        await running.ended()
        if not why:
            reason = running.said() or "the connection broke"
            raise TransportError(f"{transport.name}: listening to RAS ended: {reason}")
    return why[0]
