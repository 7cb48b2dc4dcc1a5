"""One node reached through a local program that connects to a shell there; each command is a process of that program.

The program's exit status proves nothing: some programs end with 0 when the far side was cut off. The marks of
:mod:`collectors.fleet.via.framed` show that a command has ended; the agent's ticks show that the connection still
works. Without heartbeats the agent ends by itself.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

from collectors.fleet.clean import last_line
from collectors.fleet.targets.chosen import Target
from collectors.fleet.transport import BROKEN, Output, Process, Refused, Transport, TransportError, ending, os_reason
from collectors.fleet.via.framed import Framed
from collectors.fleet.via.way import Way
from collectors.node.watchdog import child_setup

SILENCE = 12.0
"""Seconds that a tick may be overdue before the connection counts as broken: nothing else shows that it works."""
GRACE = 1.5
"""Seconds for the local program to end once its input has ended, and again after SIGTERM."""
LAST_WORDS = 0.5
"""Seconds to wait for standard error after the end."""
_CLOSING = 0.5
_ERRORS = 4096


class PipedProcess(Process, asyncio.SubprocessProtocol):
    """A process of the local program and the framed command at its far end."""

    def __init__(
        self, command: Sequence[str], on_stdout: Output, on_stderr: Output, on_end: Callable[[PipedProcess], None]
    ) -> None:
        self.framed = Framed(command, lambda data: None if self._closing else on_stdout(data))
        self._on_stderr = on_stderr
        self._on_end = on_end
        self._errors = b""
        self._transport: asyncio.SubprocessTransport | None = None
        self._local_status: int | None = None
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._closing = False
        self.broke = False
        """True if the local program ended by itself before the command did."""
        self.begun_or_ended = asyncio.Event()

    def ending(self) -> str:
        """How the local program ended, in parentheses: `` (status 1)``; empty while it runs."""
        return "" if self._local_status is None else f" ({ending(self._local_status)})"

    def last_message(self) -> str:
        """The last message of the local program, or else of the login at its far end, after a colon; empty if none."""
        line = last_line(self._errors if self._errors.strip() else self.framed.noise).rstrip(": ")
        return f": {line}" if line else ""

    async def wait(self) -> int:
        """Wait for the exit status, negative for a signal."""
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        """Close the channel: its input ends, and the local program is killed if it does not end then."""
        if self._closing:
            return
        self._closing = True
        self.resume()  # a program that is blocked in a write would not notice the end of its input
        self.write_eof()
        loop = asyncio.get_running_loop()
        loop.call_later(GRACE, self.signal, signal.SIGTERM)
        loop.call_later(2 * GRACE, self.signal, signal.SIGKILL)

    def break_off(self) -> None:
        """Close the channel and set its status now."""
        self.kill()
        self._settle()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the local program's process group, if it has not ended."""
        if self._transport is not None and self._local_status is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._transport.get_pid(), number)

    def _call(self, call: str, *arguments: bytes) -> None:
        if self._transport is not None and not self._ended.done():
            pipe: Any = self._transport.get_pipe_transport(1 if call.endswith("_reading") else 0)
            if pipe is not None and not pipe.is_closing():
                getattr(pipe, call)(*arguments)

    # --- output, and the end ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The local program was started."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Output arrived."""
        (self._stdout_received if fd == 1 else self._stderr_received)(data)

    def _stdout_received(self, data: bytes) -> None:
        over = self.framed.status is not None
        self.framed.feed(data)
        if self.framed.begun:
            self.begun_or_ended.set()
        if self.framed.status is not None and not over:
            asyncio.get_running_loop().call_later(LAST_WORDS, self._settle)

    def _stderr_received(self, data: bytes) -> None:
        self._errors = (self._errors + data)[-_ERRORS:]
        if self.framed.begun and not self._closing:
            self._on_stderr(data)

    def process_exited(self) -> None:
        """The local program ended; a child of it may still hold its streams open."""
        assert self._transport is not None
        self._local_status = self._transport.get_returncode()
        asyncio.get_running_loop().call_later(LAST_WORDS, self._let_go)

    def connection_lost(self, _exc: Exception | None) -> None:
        """The program ended, and all of its output was read."""
        self._settle()
        if self._transport is not None:
            self._transport.close()

    def _let_go(self) -> None:
        self._settle()
        for descriptor in (0, 1, 2):
            if self._transport and (pipe := self._transport.get_pipe_transport(descriptor)) is not None:
                pipe.close()

    def _settle(self) -> None:
        """Set the status: the end mark's, else :data:`BROKEN`."""
        if not self._ended.done():
            self.broke = self.framed.status is None and not self._closing
            self.kill()
            self._ended.set_result(BROKEN if self.framed.status is None else self.framed.status)
            self.begun_or_ended.set()
            self._on_end(self)


class Piped(Transport):
    """A node reached through a local program."""

    def __init__(self, target: Target, way: Way, opening: asyncio.Semaphore) -> None:
        super().__init__(target.name)
        self._target = target
        self._way = way
        self._opening = opening
        self._words: list[str] = []
        self._channels = asyncio.Semaphore(way.channels)
        self._processes: set[PipedProcess] = set()
        self._connected = False

    @property
    def connected(self) -> bool:
        """True from :meth:`connect` until the last channel broke."""
        return self._connected

    async def connect(self) -> None:
        """Check that the program is on this machine's PATH. Raises :class:`Refused`."""
        self._words = words = self._way.words(self._target)
        if shutil.which(words[0]) is None:
            raise Refused(f"{self.name}: {words[0]} is not here: install it, or name another way by --via")
        self._connected, self.why = True, ""

    def not_responding(self, seconds: float) -> None:
        """Break the connection once a tick is more than :data:`SILENCE` seconds overdue."""
        if seconds > SILENCE and self.connected:
            self._connected = False
            self.why = f"no answer for {SILENCE:.0f} s: the node is down, or {self._words[0]} carries nothing any more"
            for process in list(self._processes):
                process.break_off()

    async def start(self, command: Sequence[str], *, on_stdout: Output, on_stderr: Output) -> PipedProcess:
        """Start a command whose output goes to the callbacks. Raises :class:`TransportError`."""
        if not self.connected:
            raise self.not_connected()
        await self._channels.acquire()
        process = PipedProcess(command, on_stdout, on_stderr, self._ended)
        self._processes.add(process)
        try:
            async with self._opening:
                await self._open(process)
        except BaseException:
            process.break_off()
            raise
        return process

    async def _open(self, process: PipedProcess) -> None:
        """Start the program and wait until the shell runs the command."""
        loop, program = asyncio.get_running_loop(), self._words[0]
        try:
            await loop.subprocess_exec(
                lambda: process, *self._words, start_new_session=True, preexec_fn=child_setup(signal.SIGTERM)
            )
        except OSError as error:
            raise TransportError(f"{self.name}: {program} cannot be started: {os_reason(error)}") from None
        process.write(process.framed.line())
        try:
            async with asyncio.timeout(self._way.opening):
                await process.begun_or_ended.wait()
        except TimeoutError:
            why = f"gave no shell within {self._way.opening:.0f} s (or one on a terminal: leave out its -t)"
            raise TransportError(f"{self.name}: {program} {why}{process.last_message()}") from None
        if not process.framed.begun:
            why = f"ended{process.ending()} before a shell answered{process.last_message()}"
            raise TransportError(f"{self.name}: {program} {why}")

    def _ended(self, process: PipedProcess) -> None:
        """A channel has ended; if it broke by itself and was the last one, the connection is lost."""
        self._processes.discard(process)
        self._channels.release()
        if process.broke and self.connected:
            self.why = f"{self._words[0]} ended{process.ending()} in the middle{process.last_message()}"
            self._connected = bool(self._processes)

    async def close(self) -> None:
        """End all channels and their local programs."""
        self._connected = False
        processes = list(self._processes)
        for process in processes:
            process.kill()
        ends = [asyncio.ensure_future(process.wait()) for process in processes]
        for number in (signal.SIGTERM, signal.SIGKILL) if processes else ():
            _, still = await asyncio.wait(ends, timeout=_CLOSING)
            for process in processes if still else ():
                process.signal(number)
