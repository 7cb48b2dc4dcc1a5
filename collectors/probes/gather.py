"""Asking a program of ours on a node once: lines in, one after another, with a deadline."""

from __future__ import annotations

from collections.abc import Sequence

from collectors.fleet.transport import Transport
from collectors.probes.running import LIMITS, Limits, Running, Take


async def gather(
    transport: Transport,
    command: Sequence[str],
    packed: bytes,
    take: Take,
    seconds: float,
    *,
    limits: Limits = LIMITS,
) -> None:
    """Run a program to its last line. Raises :class:`TransportError`."""
    async with Running(transport, command, packed, take, limits=limits) as running:
        await running.finished(seconds)
