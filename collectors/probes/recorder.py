"""Runs ``collectors.node.nccl.recorder`` on a node and takes the dumps that it finds."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass

from collectors.fleet.transport import Transport
from collectors.probes.running import Limits, answer, collect
from collectors.samples.probes import RecorderFile

ENTRY = "collectors.node.nccl.recorder"
SECONDS = 20.0
LIMITS = Limits(line=96 << 20, total=192 << 20)
"""A dump has 64 MiB at most, those of a node 128 MiB (``collectors.node.nccl.recorder``); they come in base 64."""
_file = answer(RecorderFile)


@dataclass(frozen=True, slots=True)
class Dump:
    """What one rank has: a dump's bytes, or why it has none. ``pipe`` tells whether it can be asked for one.

    ``size``: bytes that it had, also once it is read and ``data`` is let go.
    """

    node: str
    rank: int
    path: str
    modified: float | None
    data: bytes
    pipe: str
    why: str
    size: int = 0


async def fetch(
    transport: Transport, python: str, ranks: Sequence[tuple[int, int, float]], *, fresh: bool
) -> list[Dump]:
    """Dumps of (rank, pid, start time on the node's clock) on one node; ``fresh`` asks the ranks to write new ones.

    Raises :class:`TransportError` when the node does not answer.
    """
    arguments = {"ranks": [list(rank) for rank in ranks], "fresh": fresh}
    found = await collect(transport, python, ENTRY, arguments, _file, SECONDS, limits=LIMITS)
    return [dump_of(transport.name, file) for file in found[: len(ranks)]]


def dump_of(node: str, file: RecorderFile) -> Dump:
    """A file as it came over the wire, decoded."""
    try:
        data = base64.b64decode(file.data, validate=True)
    except (binascii.Error, ValueError):
        return Dump(node, file.rank, file.path, file.modified, b"", file.pipe, "what came is no base64")
    return Dump(node, file.rank, file.path, file.modified, data, file.pipe, file.why, len(data))
