"""Has the ranks of one node write down what they do, by their own Python, and takes what they wrote."""

from __future__ import annotations

from collections.abc import Sequence

from collectors.fleet import payload
from collectors.fleet.transport import Transport
from collectors.probes.decoding import one_of
from collectors.probes.gather import gather
from collectors.probes.own_python import sent_along
from collectors.probes.recorder.fetch import Dump, dump_of
from collectors.samples.asked import RecorderFile
from collectors.samples.stacks import StackDump

ENTRY = "collectors.probes.attach.remote.attach"
SLACK = 45.0
"""Seconds beyond those of the answer for the start there and the way back."""
_said = one_of(StackDump, RecorderFile)


async def attach(
    transport: Transport, python: str, ranks: Sequence[tuple[int, int]], seconds: float
) -> tuple[list[StackDump], list[Dump]]:
    """Looks and dumps of (rank, pid); what is missing says why. Raises :class:`TransportError`."""
    looks: list[StackDump] = []
    dumps: list[Dump] = []

    def take(line: bytes) -> bool:
        said = _said(line)
        if isinstance(said, StackDump):
            looks.append(said)
        elif isinstance(said, RecorderFile) and said.rank >= 0:
            dumps.append(dump_of(transport.name, said))
        return isinstance(said, RecorderFile) and said.pid == 0

    arguments = {"ranks": [list(rank) for rank in ranks], "seconds": seconds}
    packed = payload.pack(ENTRY, arguments, extra=sent_along())
    await gather(transport, payload.command(python), packed, take, seconds + SLACK)
    return looks, dumps
