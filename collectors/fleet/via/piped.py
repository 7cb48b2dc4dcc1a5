"""One node by a local program that gives a shell's standard streams there; each channel is a process of that program.

The program's exit status proves nothing: some programs end with 0 when the far side was cut off. The marks of
:mod:`collectors.fleet.via.framed` tell that a command has ended, the node side's ticks that the connection still
works; the node side ends by itself without heartbeats.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Sequence

from collectors.fleet.targets.chosen import Target
from collectors.fleet.transport import Output, Refused, Transport, TransportError, no_more_files, os_reason
from collectors.fleet.via.process import PipedProcess
from collectors.fleet.via.way import Way
from collectors.node.watchdog import child_setup

SILENCE = 12.0
"""Seconds without a tick after which the connection counts as broken: nothing else shows that it works."""
_CLOSING = 0.5


class Piped(Transport):
    """A node behind a local program."""

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
        """Look for the program on this machine. Raises :class:`TransportError`."""
        if self.connected:
            return
        self._words = words = self._way.words(self._target)
        if shutil.which(words[0]) is None:
            raise Refused(f"{self.name}: {words[0]} is not here: install it, or name another way by --via")
        self._connected, self.why = True, ""

    def not_responding(self, seconds: float) -> None:
        """Break the connection after :data:`SILENCE` seconds without a tick."""
        if seconds > SILENCE and self.connected:
            self._connected = False
            self.why = f"no answer for {SILENCE:.0f} s: the node is down, or {self._words[0]} carries nothing any more"
            for process in list(self._processes):
                process.break_off()

    async def start(self, command: Sequence[str], *, on_stdout: Output, on_stderr: Output) -> PipedProcess:
        """Start a command whose output goes to the callbacks. Raises :class:`TransportError`."""
        if not self.connected:
            raise TransportError(f"{self.name}: not connected" + (f": {self.why}" if self.why else ""))
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
            failure = TransportError if no_more_files(error) else Refused  # the limit may pass
            raise failure(f"{self.name}: {program} cannot be started: {os_reason(error)}") from None
        process.write(process.framed.line())
        try:
            async with asyncio.timeout(self._way.opening):
                while process.framed.state == "before" and process.running:
                    process.news.clear()
                    await process.news.wait()
        except TimeoutError:
            why = f"gave no shell within {self._way.opening:.0f} s{self._said(process)}"
            raise TransportError(f"{self.name}: {program} {why}") from None
        if process.framed.state == "terminal":
            why = "gives a terminal there, which garbles what is sent: leave out its -t"
            raise Refused(f"{self.name}: {program} {why}")
        if process.framed.state == "before":
            why = f"ended{process.ending} before a shell answered{self._said(process)}"
            raise TransportError(f"{self.name}: {program} {why}")

    def _said(self, process: PipedProcess) -> str:
        """The program's last message and advice, each behind a colon."""
        said = process.last_line
        return "".join(f": {words}" for words in (said, self._way.advise(said)) if words)

    def _ended(self, process: PipedProcess) -> None:
        """A channel is closed; if it broke by itself and was the last one, the connection is lost."""
        self._processes.discard(process)
        self._channels.release()
        if process.broke and self.connected:
            self.why = f"{self._words[0]} ended{process.ending} in the middle{self._said(process)}"
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
