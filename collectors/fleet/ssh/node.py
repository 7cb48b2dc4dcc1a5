"""One node over SSH."""

from __future__ import annotations

import asyncio
import signal as signals
from collections.abc import Callable, Sequence
from contextlib import suppress

import asyncssh

from collectors.fleet.ssh.connector import Connector
from collectors.fleet.ssh.errors import explain_channel, explain_loss
from collectors.fleet.targets.chosen import Target
from collectors.fleet.transport import BROKEN, Output, Process, Transport, TransportError, quoted, shell_status

CHANNELS = 8
"""Simultaneous commands over one connection: sshd refuses more than its MaxSessions (default 10)."""
OPEN_TIMEOUT = 15.0
"""Seconds that a server may take to open a channel."""


class SshProcess(Process, asyncssh.SSHClientSession[bytes]):
    """A command running over a channel."""

    def __init__(self, on_stdout: Output, on_stderr: Output, on_end: Callable[[], None]) -> None:
        self._on_stdout = on_stdout
        self._on_stderr = on_stderr
        self._on_end = on_end
        self._status = BROKEN
        self._ended = asyncio.Event()
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None

    # --- as a Process ---------------------------------------------------------------------------------------------

    async def wait(self) -> int:
        """Wait for the exit status, negative for a signal; -1 also when the connection broke."""
        await self._ended.wait()
        return self._status

    def kill(self) -> None:
        """Close the channel."""
        self._call("close")

    def _call(self, call: str, *arguments: bytes) -> None:
        if self._channel is not None and not self._ended.is_set():
            with suppress(OSError):
                getattr(self._channel, call)(*arguments)

    # --- as a session of asyncssh ---------------------------------------------------------------------------------

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        """The channel is open."""
        self._channel = chan

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Output arrived."""
        (self._on_stdout if datatype is None else self._on_stderr)(data)

    def eof_received(self) -> bool:
        """Its output ended; returning True keeps its input open."""
        return True

    def exit_status_received(self, status: int) -> None:
        """The command ended."""
        self._status = shell_status(status)

    def exit_signal_received(self, signal: str, _core_dumped: bool, _msg: str, _lang: str) -> None:
        """The command died of a signal."""
        self._status = -getattr(signals, f"SIG{signal}", 1)

    def connection_lost(self, _exc: Exception | None) -> None:
        """The channel is closed, or was never opened."""
        if not self._ended.is_set():
            self._ended.set()
            self._on_end()


class Ssh(Transport):
    """A node reached over SSH; one connection, many channels."""

    def __init__(self, target: Target, connector: Connector) -> None:
        super().__init__(target.name)
        self._target = target
        self._connector = connector
        self._connection: asyncssh.SSHClientConnection | None = None
        self._channels = asyncio.Semaphore(CHANNELS)
        self._opening = asyncio.Lock()

    @property
    def connected(self) -> bool:
        """True while the connection is open."""
        return self._connection is not None and not self._connection.is_closed()

    async def connect(self) -> None:
        """Open the connection if it is not open. Raises :class:`TransportError`."""
        async with self._opening:
            if self.connected:
                return
            target = self._target
            settings = await self._connector.settings(target.host, target.user, target.port)
            connection, client = await self._connector.open(settings, self.name)

            def lost(error: Exception | None) -> None:
                if self._connection is connection:
                    self.why = explain_loss(error)
                    self._connection = None

            client.on_lost = lost
            self._connection, self.why = connection, ""
            self._channels = asyncio.Semaphore(CHANNELS)

    async def start(self, command: Sequence[str], *, on_stdout: Output, on_stderr: Output) -> SshProcess:
        """Start a command whose output goes to the callbacks. Raises :class:`TransportError`."""
        channels = self._channels
        await channels.acquire()
        process = SshProcess(on_stdout, on_stderr, channels.release)
        try:
            async with asyncio.timeout(OPEN_TIMEOUT):
                await self._open().create_session(lambda: process, quoted(tuple(command)), encoding=None)
        except BaseException as error:
            process.connection_lost(None)
            if isinstance(error, (asyncssh.Error, OSError)):
                lost = self.why if not self.connected else ""
                raise TransportError(f"{self.name}: {lost or explain_channel(error)}") from None
            raise
        return process

    def _open(self) -> asyncssh.SSHClientConnection:
        if self._connection is None:
            raise self.not_connected()
        return self._connection

    async def close(self) -> None:
        """Close the connection and everything that runs over it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            try:
                async with asyncio.timeout(1.0):
                    await connection.wait_closed()
            except TimeoutError:
                connection.abort()
