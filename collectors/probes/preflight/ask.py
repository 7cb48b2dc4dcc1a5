"""Runs ``collectors.node.machine.preflight`` on a node and takes its answers."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from collectors.fleet import payload
from collectors.fleet.transport import Transport
from collectors.probes.decoding import answer
from collectors.probes.running import Running
from collectors.samples.asked import Observation

ENTRY = "collectors.node.machine.preflight"
_observation = answer(Observation)


class PreflightRun:
    """One run on one node; an async context manager, at whose end the ports that it listened on are free again."""

    def __init__(self, transport: Transport, python: str, arguments: dict[str, object]) -> None:
        self.answers: list[Observation] = []
        self._running = Running(transport, payload.command(python), payload.pack(ENTRY, arguments), self._take)

    async def __aenter__(self) -> Self:
        """Start it. Raises :class:`~collectors.fleet.transport.TransportError`."""
        await self._running.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        await self._running.__aexit__(kind, error, trace)

    async def finished(self, seconds: float) -> list[Observation]:
        """Wait until it has answered everything. Raises :class:`~collectors.fleet.transport.TransportError`."""
        await self._running.finished(seconds)
        return self.answers

    def _take(self, line: bytes) -> bool:
        found = _observation(line)
        if found.name == "done":
            return True
        self.answers.append(found)
        return False
