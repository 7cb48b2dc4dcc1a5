"""Runs the trace program on a node and takes what it tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from collectors.fleet import payload
from collectors.fleet.transport import Transport
from collectors.probes.running import Limits, Running, one_of
from collectors.probes.trace.remote.program import Done, ListedTrace
from collectors.samples.traces import RankTrace

ENTRY = "collectors.probes.trace.remote.program"
LIMITS = Limits(line=16 << 20, total=128 << 20)
READING = 1800.0
"""Seconds for all traces of one node: fifty of a gigabyte."""

Progress = Callable[[str], None]
_told = one_of(RankTrace, ListedTrace, Done)


async def find(transport: Transport, python: str, patterns: Sequence[str]) -> list[ListedTrace]:
    """The files that paths, folders and globs name on a node.

    Raises :class:`~collectors.fleet.transport.TransportError`.
    """
    told = await _run(transport, python, {"patterns": list(patterns)}, READING)
    return [one for one in told if isinstance(one, ListedTrace)]


async def read(
    transport: Transport, python: str, paths: Sequence[str], progress: Progress = lambda _: None
) -> list[RankTrace]:
    """The traces in these files of a node, reduced there. Raises :class:`TransportError`."""
    progress(f"{transport.name}: reading {len(paths)} traces")

    def hear(count: int) -> None:
        progress(f"{transport.name}: {count} of {len(paths)} traces read")

    return _traces(transport, await _run(transport, python, {"paths": list(paths)}, READING, hear))


async def _run(
    transport: Transport, python: str, arguments: object, seconds: float, hear: Callable[[int], None] = lambda _: None
) -> list[object]:
    told: list[object] = []

    def take(line: bytes) -> bool:
        one = _told(line)
        if one is None or isinstance(one, Done):
            return one is not None
        told.append(one)
        hear(len(told))
        return False

    packed = payload.pack(ENTRY, arguments)
    async with Running(transport, payload.command(python), packed, take, limits=LIMITS) as running:
        await running.finished(seconds)
    return told


def _traces(transport: Transport, told: Sequence[object]) -> list[RankTrace]:
    return [one._replace(node=transport.name) for one in told if isinstance(one, RankTrace)]
