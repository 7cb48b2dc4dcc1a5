"""Run ``collectors.node.nccl.recorder`` on a node and fetch the flight recorder dumps that it finds."""

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
"""A dump has at most 64 MiB, all dumps of a node 128 MiB (``collectors.node.nccl.recorder``); base 64 adds a third."""
_file = answer(RecorderFile)


@dataclass(frozen=True, slots=True)
class Dump:
    """The dump of one rank, or the reason why there is none. ``pipe``: whether the rank can write a new dump.

    ``size``: bytes of the dump, also after ``data`` is parsed and dropped.
    """

    node: str
    rank: int
    path: str
    modified: float | None
    data: bytes
    pipe: str
    why: str
    size: int = 0


async def fetch(transport: Transport, ranks: Sequence[tuple[int, int, float]], *, fresh: bool) -> list[Dump]:
    """Dumps of (rank, pid, start time on the node's clock) on one node; ``fresh``: the ranks write new dumps first.

    Raises :class:`TransportError` if the node does not answer.
    """
    arguments = {"ranks": [list(rank) for rank in ranks], "fresh": fresh}
    found = await collect(transport, ENTRY, arguments, _file, SECONDS, limits=LIMITS)
    return [dump_of(transport.name, file) for file in found[: len(ranks)]]


def dump_of(node: str, file: RecorderFile) -> Dump:
    """Decode a dump from the wire."""
    try:
        data = base64.b64decode(file.data, validate=True)
    except (binascii.Error, ValueError):
        return Dump(node, file.rank, file.path, file.modified, b"", file.pipe, "the answer is not base 64")
    return Dump(node, file.rank, file.path, file.modified, data, file.pipe, file.why, len(data))
