"""The interface that runs commands on a node: over SSH, or through a local program."""

from __future__ import annotations

import asyncio
import errno
import resource
import shlex
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

Output = Callable[[bytes], None]
"""Takes output of a command as it arrives, in chunks of any size."""


class TransportError(Exception):
    """The node could not be reached, or the command could not be started; the text says what to do about it."""


class Refused(TransportError):
    """Another attempt cannot succeed before the user acts: unknown or changed host key, authentication refused."""


class Declined(Refused):
    """The user did not accept a host key; hangtop asks again only if the user retries the node."""


class SshConfigError(Refused):
    """The ssh_config cannot be used; the text names the file, and the line if known."""


BROKEN = -1
"""Status of a command whose connection broke before its end."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that ended. ``status`` is its exit status, negative for a signal as in :mod:`subprocess`."""

    status: int
    stdout: bytes
    stderr: bytes


class Process(ABC):
    """A running command; its output goes to the callbacks of :meth:`Transport.start`."""

    @abstractmethod
    def _call(self, call: str, *arguments: bytes) -> None:
        """Call the method ``call`` of the channel or pipe that carries the command's streams, while it is open."""

    def write(self, data: bytes) -> None:
        """Write to its standard input; ignored once the command has ended."""
        self._call("write", data)

    def write_eof(self) -> None:
        """End its standard input."""
        self._call("write_eof")

    def pause(self) -> None:
        """Stop reading its output; the command blocks once the pipe or window is full."""
        self._call("pause_reading")

    def resume(self) -> None:
        """Take its output again."""
        self._call("resume_reading")

    @abstractmethod
    async def wait(self) -> int:
        """Wait for the exit status (negative: signal; -1 also when the connection broke)."""

    @abstractmethod
    def kill(self) -> None:
        """Close the channel; the command ends because its standard input ends, or is killed."""


class Transport(ABC):
    """A connection to one node."""

    def __init__(self, name: str) -> None:
        self.name = name
        """The node's name as the user wrote it."""
        self.why = ""
        """Why the connection ended."""
        self.python = "python3"
        """The interpreter there for hangtop's programs: see :func:`collectors.fleet.payload.command`."""

    @property
    @abstractmethod
    def connected(self) -> bool:
        """True while commands can be run."""

    @abstractmethod
    async def connect(self) -> None:
        """Open the connection if it is not open. Raises :class:`TransportError`."""

    @abstractmethod
    async def start(self, command: Sequence[str], *, on_stdout: Output, on_stderr: Output) -> Process:
        """Start a command whose output goes to the callbacks. Raises :class:`TransportError`."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection; the commands that run over it end."""

    def not_connected(self) -> TransportError:
        """The error for a command on a node that is not connected."""
        return TransportError(f"{self.name}: not connected" + (f": {self.why}" if self.why else ""))

    def not_responding(self, seconds: float) -> None:  # noqa: B027 - SSH has keepalives
        """Called each second while a tick is ``seconds`` overdue; a transport without keepalives then disconnects."""

    async def run(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0, limit: int = 64 << 20
    ) -> Completed:
        """Start a command, its words quoted for the remote shell, write its input, and wait for its end.

        ``limit`` bounds the bytes kept of each output. Raises :class:`TransportError` if the command cannot be started,
        does not end within ``timeout`` seconds, or the connection breaks meanwhile.
        """
        out, err = bytearray(), bytearray()
        process: Process | None = None
        try:
            async with asyncio.timeout(timeout):
                process = await self.start(
                    command,
                    on_stdout=lambda data: out.extend(data[: limit - len(out)]),
                    on_stderr=lambda data: err.extend(data[: limit - len(err)]),
                )
                if stdin:
                    process.write(stdin)
                process.write_eof()
                status = await process.wait()
        except TimeoutError:
            raise TransportError(f"{self.name}: {command[0]} did not end within {timeout:g} s") from None
        finally:
            if process is not None:
                process.kill()
        if status == BROKEN and self.why:
            raise TransportError(f"{self.name}: {self.why} while {command[0]} ran")
        return Completed(status, bytes(out), bytes(err))


@lru_cache(64)
def quoted(command: tuple[str, ...]) -> str:
    """A command for a shell, cached: the agent's command is long, and all nodes and channels can share one string."""
    return shlex.join(command)


def shell_status(said: int) -> int:
    """A shell's exit status as in :mod:`subprocess`: 128 + N, for a command that died of signal N, becomes -N."""
    return 128 - said if 128 < said < 128 + signal.NSIG else said


def ending(status: int) -> str:
    """How a command ended: ``status 1`` or ``killed by SIGKILL``; ``status`` is as in :mod:`subprocess`."""
    if status >= 0:
        return f"status {status}"
    known = -status in signal.Signals.__members__.values()
    return f"killed by {signal.Signals(-status).name if known else f'signal {-status}'}"


def os_reason(error: OSError) -> str:
    """The system's text for an error; at the limit of open files, also the limit."""
    if error.errno == errno.EMFILE:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return f"hangtop may open no further file on this machine: its limit (ulimit -n) is {soft}"
    return error.strerror or type(error).__name__
