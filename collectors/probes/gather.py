"""One run of a hangtop program on a node: its lines, with a deadline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from collectors.fleet import payload
from collectors.fleet.transport import Transport
from collectors.probes.running import LIMITS, Limits, Running, Take

T = TypeVar("T")


async def gather(
    transport: Transport, command: Sequence[str], packed: bytes, take: Take, seconds: float, *, limits: Limits = LIMITS
) -> None:
    """Run a program to its last line. Raises :class:`TransportError`."""
    async with Running(transport, command, packed, take, limits=limits) as running:
        await running.finished(seconds)


async def collect(
    transport: Transport, python: str, entry: str, arguments: Mapping[str, object], read: Callable[[bytes], T],
    seconds: float, *, last: Callable[[T], bool] = lambda _: True, limits: Limits = LIMITS,
) -> list[T]:  # fmt: skip
    """All lines that the program ``entry`` says, the ``last`` one too; without ``last`` that is the first one.

    Raises :class:`TransportError`.
    """
    found: list[T] = []

    def take(line: bytes) -> bool:
        found.append(read(line))
        return last(found[-1])

    await gather(transport, payload.command(python), payload.pack(entry, dict(arguments)), take, seconds, limits=limits)
    return found
