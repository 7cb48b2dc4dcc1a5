"""This machine, as a node: commands are subprocesses, without a shell."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast
from weakref import WeakSet

from collectors.fleet.transport import Output, Process, Transport, TransportError, os_reason


class LocalProcess(Process, asyncio.SubprocessProtocol):
    """A command running here."""

    def __init__(self, on_stdout: Output, on_stderr: Output) -> None:
        self._callbacks = {1: on_stdout, 2: on_stderr}
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.SubprocessTransport | None = None

    # --- as a Process ---------------------------------------------------------------------------------------------

    async def wait(self) -> int:
        """Wait for the exit status, negative for a signal."""
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        """Kill the command and read no more output."""
        if self._ended.done():
            return
        # The transport's own kill() and close() poll the child. A poll after its end takes the exit status away from
        # asyncio, which then warns about an unknown child and reports 255.
        if self._transport is not None and self._transport.get_returncode() is None:
            with suppress(ProcessLookupError):
                os.kill(self._transport.get_pid(), signal.SIGKILL)
        self._close_pipes()

    def _tell(self, call: str, *arguments: bytes) -> None:
        if self._transport is not None and not self._ended.done():
            pipe: Any = self._transport.get_pipe_transport(1 if call.endswith("_reading") else 0)
            if pipe is not None and not pipe.is_closing():
                getattr(pipe, call)(*arguments)

    def _close_pipes(self) -> None:
        for descriptor in (0, 1, 2):
            if self._transport and (pipe := self._transport.get_pipe_transport(descriptor)) is not None:
                pipe.close()

    # --- as asyncio's protocol ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The command was started."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Output arrived."""
        self._callbacks[fd](data)

    def connection_lost(self, _exc: Exception | None) -> None:
        """The command ended and all of its output was read."""
        assert self._transport is not None
        status = self._transport.get_returncode()
        self._end(-1 if status is None else status)
        self._transport.close()

    def _end(self, status: int) -> None:
        if not self._ended.done():
            self._ended.set_result(status)


class Local(Transport):
    """This machine."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._processes: WeakSet[LocalProcess] = WeakSet()

    @property
    def connected(self) -> bool:
        """Always True."""
        return True

    async def connect(self) -> None:
        """Do nothing: this machine is always connected."""

    async def start(self, command: Sequence[str], *, on_stdout: Output, on_stderr: Output) -> LocalProcess:
        """Start a command whose output goes to the callbacks. Raises :class:`TransportError`."""
        try:
            _, process = await asyncio.get_running_loop().subprocess_exec(
                lambda: LocalProcess(on_stdout, on_stderr), *command, start_new_session=True
            )
        except OSError as error:
            raise TransportError(f"{self.name}: {command[0]} cannot be started: {os_reason(error)}") from None
        self._processes.add(process)
        return process

    async def close(self) -> None:
        """Kill all commands that were started."""
        processes = list(self._processes)
        for process in processes:
            process.kill()
        if processes:
            await asyncio.wait({asyncio.ensure_future(process.wait()) for process in processes}, timeout=1.0)
