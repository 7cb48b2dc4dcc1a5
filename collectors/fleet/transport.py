"""How a command is run on a node: over SSH or, for this machine, as a subprocess."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol


class TransportError(Exception):
    """The node could not be reached or the command could not be started; the text says what to do about it."""


class Refused(TransportError):
    """Trying again will not help until somebody acts: unknown or changed host key, authentication refused."""


class Declined(Refused):
    """A question to the person stayed without an answer: asking it again unbidden would be a nuisance."""


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
