"""A command on a node that streams until it ends: its output, the end of its standard error, and its status."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collectors.fleet.clean import clean_bytes
from collectors.fleet.transport import LinkTransport, StreamProcess, TransportError

_ERROR_BYTES = 4096
"""Bytes of standard error that are kept."""
_SAID = 300
"""Characters of the last line of standard error that are shown."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    status: int
    errors: bytes
    """The end of its standard error."""

    def __str__(self) -> str:
        """A predicate for people: ``ended (status 1): …``."""
        if self.status == -signal.SIGALRM:  # its watchdog
            return "heard nothing from here for too long and ended itself"
        if self.status < 0:
            return f"was killed ({_signal_name(-self.status)})"
        return f"ended (status {self.status}){self.told}"

    @property
    def told(self) -> str:
        """The last line of its standard error, behind a colon; empty where there is none."""
        lines = clean_bytes(self.errors).strip().splitlines()
        return f": {lines[-1].strip()[:_SAID]}" if lines else ""


class Streaming:
    """A running command, whose output goes to ``take``."""

    def __init__(self, transport: LinkTransport, take: Callable[[bytes], None]) -> None:
        self._transport = transport
        self._take = take
        self._process: StreamProcess | None = None
        self._paused = False
        self._errors = bytearray()
        self._spoke = asyncio.Event()

    async def run(self, command: Sequence[str], first: Callable[[], bytes], patience: float, program: str) -> Ended:
        """Run the command to its end; ``first`` makes what is written to it at first.

        The command has ``patience`` seconds until :meth:`heard`, else :class:`TransportError` says that ``program``
        was silent.
        """
        process = await self._transport.start(command, on_stdout=self._take, on_stderr=self._complain)
        self._process = process
        try:
            process.write(first())  # made here, so that 2,048 links do not hold 2,048 copies
            if not await self._speaks(process, patience):
                told = Ended(0, bytes(self._errors)).told
                raise TransportError(f"{program} said nothing there for {patience:.0f} s{told}")
            status = await process.wait()
        finally:
            self._process = None
            process.kill()
        return Ended(status, bytes(self._errors))

    def heard(self) -> None:
        """Note that the first sample has come."""
        self._spoke.set()

    def write(self, data: bytes) -> None:
        """Write to its standard input, if it runs."""
        if self._process is not None:
            self._process.write(data)

    def pause(self) -> None:
        """Take no more of its output for now."""
        if self._process is not None and not self._paused:
            self._paused = True
            self._process.pause()

    def resume(self) -> None:
        """Take its output again."""
        if self._process is not None and self._paused:
            self._paused = False
            self._process.resume()

    def _complain(self, data: bytes) -> None:
        self._errors += data
        del self._errors[:-_ERROR_BYTES]

    async def _speaks(self, process: StreamProcess, seconds: float) -> bool:
        """Whether the command sends a sample, or ends, within ``seconds``."""
        ending = asyncio.ensure_future(process.wait())
        hearing = asyncio.ensure_future(self._spoke.wait())
        try:
            done, _ = await asyncio.wait({ending, hearing}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            hearing.cancel()
        return bool(done)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
