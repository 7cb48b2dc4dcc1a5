"""The interface that runs commands on a node: over SSH, through a local program, or as a subprocess here."""

from __future__ import annotations

import asyncio
import errno
import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol


class TransportError(Exception):
    """The node could not be reached or the command could not be started; the text says what to do about it."""


class Refused(TransportError):
    """Another attempt cannot succeed before a person acts: unknown or changed host key, authentication refused."""


class Declined(Refused):
    """The person declined a question; the question is not asked again without being told to."""


class SshConfigError(Refused):
    """The ssh_config cannot be used; the text names the file, and the line where it is known."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that ended. ``status`` is its exit status, negative for a signal as in :mod:`subprocess`."""

    status: int
    stdout: bytes
    stderr: bytes


class Process(Protocol):
    """A running command; its output goes to the callbacks of :meth:`Transport.start`."""

    def write(self, data: bytes) -> None:
        """Write to its standard input; ignored once the command has ended."""

    def write_eof(self) -> None:
        """End its standard input."""

    async def wait(self) -> int:
        """Wait for the exit status (negative: signal; -1 also when the connection broke)."""

    def kill(self) -> None:
        """Close the channel; the command ends because its standard input ends."""


class Transport(Protocol):
    """A connection to one node."""

    @property
    def name(self) -> str:
        """The node's name as the user wrote it."""

    async def connect(self) -> None:
        """Open the connection if it is not open. Raises :class:`TransportError`."""

    async def run(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0, limit: int = 64 << 20
    ) -> Completed:
        """Run a command to its end, its words quoted for the remote shell.

        ``limit`` bounds the bytes of output kept. Raises :class:`TransportError`, also when ``timeout`` seconds pass.
        """

    async def start(
        self,
        command: Sequence[str],
        *,
        on_stdout: Callable[[bytes], None],
        on_stderr: Callable[[bytes], None],
    ) -> Process:
        """Start a command whose output goes to the callbacks as it comes, in chunks of any size."""

    async def close(self) -> None:
        """Close the connection; the commands that run over it end."""


class StartsCommand(Protocol):
    """The type of :meth:`Transport.start`."""

    async def __call__(
        self, command: Sequence[str], *, on_stdout: Callable[[bytes], None], on_stderr: Callable[[bytes], None]
    ) -> Process:
        """Start it."""


async def run_to_end(
    start: StartsCommand, node: str, command: Sequence[str], *, stdin: bytes, timeout: float, limit: int
) -> Completed:
    """Start a command, write its input, and wait for its end; the command has ended when this returns.

    Raises :class:`TransportError` where it cannot be started, and when ``timeout`` seconds pass.
    """
    out, err = _Output(limit), _Output(limit)
    process: Process | None = None
    try:
        async with asyncio.timeout(timeout):
            process = await start(command, on_stdout=out.add, on_stderr=err.add)
            if stdin:
                process.write(stdin)
            process.write_eof()
            status = await process.wait()
    except TimeoutError:
        raise TransportError(f"{node}: {command[0]} did not end within {timeout:g} s") from None
    finally:
        if process is not None:
            process.kill()
    return Completed(status, b"".join(out.parts), b"".join(err.parts))


class _Output:
    """Collects bytes up to a limit."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self.parts: list[bytes] = []

    def add(self, data: bytes) -> None:
        kept = bytes(data[: self._left])
        self._left -= len(kept)
        self.parts.append(kept)


def no_more_files(error: OSError) -> bool:
    """True where this process, or this machine, has reached its limit of open files."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def os_reason(error: OSError) -> str:
    """The system's text of an error; for a limit of open files, also which limit."""
    if error.errno == errno.EMFILE:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        may = "" if soft == hard else f", and may be up to {hard}" if hard != resource.RLIM_INFINITY else ""
        return f"hangtop may open no further file on this machine: its limit (ulimit -n) is {soft}{may}"
    if error.errno == errno.ENFILE:
        return "no further file can be opened on this machine: all programs together are at its limit (fs.file-max)"
    return error.strerror or type(error).__name__
