"""This machine, as a node: commands are subprocesses, without a shell."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio import SubprocessTransport
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

from collectors.fleet.transport import Output, Transport, TransportError, os_reason

_NOT_FOUND = 127


class LocalProcess(asyncio.SubprocessProtocol):
    """A command running here."""

    def __init__(self, on_stdout: Output, on_stderr: Output) -> None:
        self._callbacks = {1: on_stdout, 2: on_stderr}
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._transport: SubprocessTransport | None = None

    # --- as a Process ---------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Write to the command's standard input."""
        if (pipe := self._stdin()) is not None:
            pipe.write(data)

    def write_eof(self) -> None:
        """Close the command's standard input."""
        if (pipe := self._stdin()) is not None:
            pipe.close()

    async def wait(self) -> int:
        """Wait for the exit status, negative for a signal."""
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        """Kill the command and read no more output."""
        transport = self._transport
        if transport is None or self._ended.done():
            return
        # Not by the transport's own kill() and close(): both poll, and one that polls after the end takes the exit
        # status away from asyncio, which then complains of an unknown child and reports 255.
        if transport.get_returncode() is None:
            with suppress(ProcessLookupError):
                os.kill(transport.get_pid(), signal.SIGKILL)
        for descriptor in (0, 1, 2):
            if (pipe := transport.get_pipe_transport(descriptor)) is not None:
                pipe.close()

    def pause(self) -> None:
        """Stop reading output; the command blocks once its pipe is full."""
        if (pipe := self._stdout()) is not None:
            pipe.pause_reading()

    def resume(self) -> None:
        """Read output again."""
        if (pipe := self._stdout()) is not None:
            pipe.resume_reading()

    @property
    def running(self) -> bool:
        """True until the command has ended."""
        return not self._ended.done()

    def _stdin(self) -> asyncio.WriteTransport | None:
        return cast("asyncio.WriteTransport | None", self._pipe(0))

    def _stdout(self) -> asyncio.ReadTransport | None:
        return cast("asyncio.ReadTransport | None", self._pipe(1))

    def _pipe(self, descriptor: int) -> asyncio.BaseTransport | None:
        """One of its pipes, as long as that is open."""
        if self._transport is None or self._ended.done():
            return None
        pipe = self._transport.get_pipe_transport(descriptor)
        return None if pipe is None or pipe.is_closing() else pipe

    # --- as asyncio's protocol ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The command runs."""
        self._transport = cast("SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Output came."""
        self._callbacks[fd](data)

    def connection_lost(self, _exc: Exception | None) -> None:
        """The command ended and all of its output was read."""
        status = self._transport.get_returncode() if self._transport is not None else None
        if not self._ended.done():
            self._ended.set_result(-1 if status is None else status)
        if self._transport is not None:
            self._transport.close()


class Local(Transport):
    """This machine."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._processes: set[LocalProcess] = set()

    @property
    def connected(self) -> bool:
        """Always True."""
        return True

    async def connect(self) -> None:
        """Do nothing: this machine is always connected."""

    async def start(self, command: Sequence[str], *, on_stdout: Output, on_stderr: Output) -> LocalProcess:
        """Start a command whose output goes to the callbacks. Raises :class:`TransportError`."""
        loop = asyncio.get_running_loop()
        try:
            _, process = await loop.subprocess_exec(
                lambda: LocalProcess(on_stdout, on_stderr), *command, start_new_session=True
            )
        except FileNotFoundError:
            # As a shell would: the caller looks at the status, over SSH and here.
            return await self.start(["/bin/sh", "-c", f"exit {_NOT_FOUND}"], on_stdout=on_stdout, on_stderr=on_stderr)
        except OSError as error:
            raise TransportError(f"{self.name}: {command[0]} cannot be started: {os_reason(error)}") from None
        self._processes = {one for one in self._processes if one.running}
        self._processes.add(process)
        return process

    async def close(self) -> None:
        """Kill all commands that were started."""
        processes, self._processes = self._processes, set()
        for process in processes:
            process.kill()
        if processes:
            await asyncio.wait({asyncio.ensure_future(process.wait()) for process in processes}, timeout=1.0)
