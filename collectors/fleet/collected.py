"""A command run to its end, whatever carries it, and its output, kept up to a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from collectors.fleet.transport import Completed, Process, TransportError


class Collected:
    """Bytes that come in pieces; those over the limit are counted and let go."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._parts: list[bytes] = []
        self.dropped = 0

    def add(self, data: bytes) -> None:
        """Keep as much of it as fits."""
        kept = data[: self._left]
        self._left -= len(kept)
        self.dropped += len(data) - len(kept)
        self._parts.append(bytes(kept))

    def value(self) -> bytes:
        """Everything that was kept."""
        return b"".join(self._parts)


class StartsCommand(Protocol):
    """A transport's way to start a command; see :class:`~collectors.fleet.transport.Transport`."""

    async def __call__(
        self, command: Sequence[str], *, on_stdout: Callable[[bytes], None], on_stderr: Callable[[bytes], None]
    ) -> Process:
        """Start it."""


async def run_to_end(
    start: StartsCommand, node: str, command: Sequence[str], *, stdin: bytes, timeout: float, limit: int
) -> Completed:
    """Start a command, give it its input, and wait for its end; nothing of it goes on when this returns.

    Raises :class:`TransportError` where it cannot be started, and when ``timeout`` seconds pass.
    """
    out, err = Collected(limit), Collected(limit)
    process: Process | None = None
    try:
        async with asyncio.timeout(timeout):
            process = await start(command, on_stdout=out.add, on_stderr=err.add)
            if stdin:
                process.write(stdin)
            process.write_eof()
            status = await process.wait()
    except TimeoutError:
        raise TransportError(f"{node}: {command[0]} did not end within {timeout:g} s") from None
    finally:
        if process is not None:
            process.kill()
    return Completed(status, out.value(), err.value())
