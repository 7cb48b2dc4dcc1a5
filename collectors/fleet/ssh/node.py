"""One node over SSH."""

from __future__ import annotations

import asyncio
import shlex
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache

import asyncssh

from collectors.fleet.channels import Channels
from collectors.fleet.ssh.config import HostSettings
from collectors.fleet.ssh.connector import Connector
from collectors.fleet.ssh.reasons import explain, explain_loss
from collectors.fleet.transport import Completed, TransportError, run_to_end

OPEN_TIMEOUT = 15.0
"""Seconds that a server may take to open a channel."""


class SshProcess(asyncssh.SSHClientSession[bytes]):
    """A command running over a channel."""

    def __init__(self, on_stdout: Callable[[bytes], None], on_stderr: Callable[[bytes], None]) -> None:
        self._on_stdout = on_stdout
        self._on_stderr = on_stderr
        self._status: int | None = None
        self._ended = asyncio.Event()
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self.on_end: Callable[[], None] | None = None

    # --- as a Process ---------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Write to the command's standard input."""
        if self._channel is not None and not self._ended.is_set():
            with suppress(BrokenPipeError, OSError):
                self._channel.write(data)

    def write_eof(self) -> None:
        """Close the command's standard input."""
        if self._channel is not None and not self._ended.is_set():
            with suppress(BrokenPipeError, OSError):
                self._channel.write_eof()

    async def wait(self) -> int:
        """Wait for the exit status, negative for a signal; -1 also when the connection broke."""
        await self._ended.wait()
        return -1 if self._status is None else self._status

    def kill(self) -> None:
        """Close the channel."""
        if self._channel is not None:
            self._channel.close()

    def pause(self) -> None:
        """Stop reading output; the command blocks once the window is full."""
        if self._channel is not None and not self._ended.is_set():
            self._channel.pause_reading()

    def resume(self) -> None:
        """Read output again."""
        if self._channel is not None and not self._ended.is_set():
            self._channel.resume_reading()

    # --- as a session of asyncssh ---------------------------------------------------------------------------------

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        """The channel is open."""
        self._channel = chan

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Output came."""
        (self._on_stdout if datatype is None else self._on_stderr)(data)

    def eof_received(self) -> bool:
        """Its output ended; returning True keeps its input open."""
        return True

    def exit_status_received(self, status: int) -> None:
        """The command ended. A shell returns 128 + N for a command that died of signal N."""
        self._status = status if status <= 128 else 128 - status if status - 128 < signal.NSIG else status

    def exit_signal_received(self, signal: str, _core_dumped: bool, _msg: str, _lang: str) -> None:
        """The command died of a signal."""
        self._status = -_signal_number(signal)

    def connection_lost(self, _exc: Exception | None) -> None:
        """The channel is closed."""
        self._ended.set()
        if self.on_end is not None:
            self.on_end()
            self.on_end = None


def _signal_number(name: str) -> int:
    found = signal.Signals.__members__.get(f"SIG{name}")
    return int(found) if found is not None else 1


@lru_cache(64)
def _joined(command: tuple[str, ...]) -> str:
    """The command, quoted once for all nodes: the command of the node side is long, and every channel keeps it."""
    return shlex.join(command)


class Ssh:
    """A node reached over SSH; one connection, many channels."""

    def __init__(self, name: str, settings: HostSettings, connector: Connector) -> None:
        self._name = name
        self._settings = settings
        self.connector = connector
        """Opens the connections of all nodes."""
        self._connection: asyncssh.SSHClientConnection | None = None
        self._channels = Channels()
        self._opening: asyncio.Lock = asyncio.Lock()
        self.why = ""
        """Why the last connection ended."""
        self.waiting: Callable[[str], None] = lambda _reason: None
        """Called with what connecting waits for, and with an empty text once it does not."""

    @property
    def name(self) -> str:
        """The node's name as the user wrote it."""
        return self._name

    @property
    def connected(self) -> bool:
        """True while the connection is open."""
        return self._connection is not None and not self._connection.is_closed()

    async def connect(self) -> None:
        """Open the connection if it is not open. Raises :class:`TransportError`."""
        async with self._opening:
            if self.connected:
                return
            self._channels = Channels()
            connection, client = await self.connector.open(self._settings, self._name, self.waiting)

            def lost(error: Exception | None) -> None:
                if self._connection is connection:
                    self.why = explain_loss(error)
                    self._connection = None

            client.on_lost = lost
            self._connection = connection
            self.why = ""

    def not_responding(self, seconds: float) -> None:
        """Do nothing: SSH keepalives tell a cut link from a slow node side."""

    async def run(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0, limit: int = 64 << 20
    ) -> Completed:
        """Run a command to its end; see :class:`~collectors.fleet.transport.Transport`."""
        done = await run_to_end(self.start, self._name, command, stdin=stdin, timeout=timeout, limit=limit)
        if done.status == -1 and not self.connected:
            raise TransportError(f"{self._name}: {self.why} while {command[0]} ran")
        return done

    async def start(
        self,
        command: Sequence[str],
        *,
        on_stdout: Callable[[bytes], None],
        on_stderr: Callable[[bytes], None],
    ) -> SshProcess:
        """Start a command whose output goes to the callbacks. Raises :class:`TransportError`."""
        line = _joined(tuple(command))
        channels = self._channels
        while True:
            connection = self._open_connection()
            await channels.take()
            try:
                process = await self._open_channel(connection, line, SshProcess(on_stdout, on_stderr))
            except asyncssh.ChannelOpenError as error:
                if not channels.refused():
                    raise TransportError(self._refusal(error, channels)) from None
            except (asyncssh.Error, OSError) as error:
                channels.give_back()
                raise TransportError(f"{self._name}: {self._failure(error)}") from None
            except BaseException:
                channels.give_back()
                raise
            else:
                process.on_end = channels.give_back
                return process

    @staticmethod
    async def _open_channel(connection: asyncssh.SSHClientConnection, line: str, process: SshProcess) -> SshProcess:
        async with asyncio.timeout(OPEN_TIMEOUT):
            await connection.create_session(lambda: process, line, encoding=None)
        return process

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

    def _open_connection(self) -> asyncssh.SSHClientConnection:
        if self._connection is None or self._connection.is_closed():
            raise TransportError(f"{self._name}: not connected" + (f": {self.why}" if self.why else ""))
        return self._connection

    def _refusal(self, error: asyncssh.ChannelOpenError, channels: Channels) -> str:
        if not self.connected:
            return f"{self._name}: {self.why}"
        return (
            f"{self._name}: sshd opens no further session on this connection ({error.reason}; {channels.open} open): "
            "its MaxSessions must be 2 at the least, better 10"
        )

    def _failure(self, error: Exception) -> str:
        if not self.connected and self.why:
            return self.why
        return str(explain(error, self._settings))
