"""How a command is run on a node, whatever carries it: over SSH, through a local program, or as a subprocess here."""

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
    """Trying again will not help until somebody acts: unknown or changed host key, authentication refused."""


class Declined(Refused):
    """A question to the person stayed without an answer: asking it again unbidden would be a nuisance."""


class SshConfigError(Refused):
    """The ssh_config cannot be used; the text names the file, and the line where it is known."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that ended. ``status`` is its exit status, negative for a signal as in :mod:`subprocess`."""

    status: int
    stdout: bytes
    stderr: bytes


class Process(Protocol):
    """A running command whose output arrives in the callbacks that it was started with."""

    def write(self, data: bytes) -> None:
        """Send to its standard input; silently ignored once it has ended."""

    def write_eof(self) -> None:
        """End its standard input."""

    async def wait(self) -> int:
        """Wait for its end and return its exit status (negative: signal; -1 also when the connection broke)."""

    def kill(self) -> None:
        """End it: closes the channel; the far side ends by itself because its standard input ends."""


class Transport(Protocol):
    """One node, reachable."""

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
        """Close the connection and everything that runs over it."""


class StartsCommand(Protocol):
    """A transport's way to start a command; see :class:`Transport`."""

    async def __call__(
        self, command: Sequence[str], *, on_stdout: Callable[[bytes], None], on_stderr: Callable[[bytes], None]
    ) -> Process:
        """Start it."""


async def run_to_end(
    start: StartsCommand, node: str, command: Sequence[str], *, stdin: bytes, timeout: float, limit: int
) -> Completed:
    """Start a command, give it its input, and wait for its end; nothing of it goes on when this returns.

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
    """Bytes that come in pieces; those over the limit are let go."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self.parts: list[bytes] = []

    def add(self, data: bytes) -> None:
        kept = bytes(data[: self._left])
        self._left -= len(kept)
        self.parts.append(kept)


def no_more_files(error: OSError) -> bool:
    """True where this process, or this whole machine, has as many files open as it may have."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def os_reason(error: OSError) -> str:
    """What the system says of an error; of files that may not be opened on this machine also whose limit that is."""
    if error.errno == errno.EMFILE:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        may = "" if soft == hard else f", and may be up to {hard}" if hard != resource.RLIM_INFINITY else ""
        return f"hangtop may open no further file on this machine: its limit (ulimit -n) is {soft}{may}"
    if error.errno == errno.ENFILE:
        return "no further file can be opened on this machine: all programs together are at its limit (fs.file-max)"
    return error.strerror or type(error).__name__
