"""Running a program of ours on a node until it has said everything: lines in, one after another, with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import msgspec

from collectors.fleet.clean import clean
from collectors.fleet.transport import Process, Transport, TransportError
from collectors.samples.asked import Observation

LOST = -1
"""Status of a process whose connection broke."""
Take = Callable[[bytes], bool]
"""Gets one line; True when it was the last. Raises :class:`msgspec.DecodeError` for a line that is none."""


class Running:
    """A packed program on a node; an async context manager, at whose end the program there ends."""

    def __init__(self, transport: Transport, command: Sequence[str], packed: bytes, take: Take) -> None:
        self._transport = transport
        self._command = command
        self._packed = packed
        self._take = take
        self._process: Process | None = None
        self._rest = b""
        self._errors = bytearray()
        self._done = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Start it; its standard input stays open, and with it the program. Raises :class:`TransportError`."""
        self._process = await self._transport.start(self._command, on_stdout=self._lines, on_stderr=self._errors.extend)
        self._process.write(self._packed)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        if self._process is not None:
            self._process.write_eof()
            self._process.kill()

    def write(self, data: bytes) -> None:
        """Send to its standard input."""
        assert self._process is not None
        self._process.write(data)

    async def finished(self, seconds: float) -> None:
        """Wait for the last line. Raises :class:`TransportError` when the program ends before, or takes too long."""
        assert self._process is not None
        done = asyncio.ensure_future(self._done.wait())
        ended = asyncio.ensure_future(self._process.wait())
        try:
            await asyncio.wait((done, ended), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not self._done.is_set():
                why = self._complaint(ended.result() if ended.done() else None, seconds)
                raise TransportError(f"{self._transport.name}: {why}")
        finally:
            done.cancel()
            ended.cancel()

    def _complaint(self, status: int | None, seconds: float) -> str:
        """Why there is no last line; ``status`` is None where the program still runs."""
        if status == LOST:
            return "the connection was lost before it had answered"
        said = clean(bytes(self._errors[-300:]).decode("utf-8", "replace")).strip()
        return said or (f"no answer in {seconds:.0f} s" if status is None else "it ended early")

    def _lines(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                if self._take(line):
                    self._done.set()
            except msgspec.DecodeError as error:
                self._errors.extend(f"unreadable answer: {error}\n".encode())


async def gather(transport: Transport, command: Sequence[str], packed: bytes, take: Take, seconds: float) -> None:
    """Run a program to its last line. Raises :class:`TransportError`."""
    async with Running(transport, command, packed, take) as running:
        await running.finished(seconds)


def cleaned(found: Observation) -> Observation:
    """Texts without control codes, as everything that comes from a node."""
    value = found.value
    if isinstance(value, str):
        value = clean(value)
    elif isinstance(value, list):
        value = [clean(item) if isinstance(item, str) else item for item in value]
    return Observation(clean(found.name), clean(found.subject), value, clean(found.error))
