"""A second way into a node where the first is closed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from collectors.fleet.streaming import LinkTransport, StreamProcess
from collectors.fleet.transport import Completed, Declined, TransportError


class Instead:
    """A node by one transport; by another once that failed before it had ever let anybody in."""

    def __init__(self, first: LinkTransport, other: LinkTransport, tell: Callable[[str], None]) -> None:
        self._first = first
        self._other = other
        self._tell = tell
        self._now = first
        self._settled = False
        self._waiting: Callable[[str], None] = lambda _reason: None

    @property
    def name(self) -> str:
        """The node's name as the user wrote it."""
        return self._first.name

    @property
    def connected(self) -> bool:
        """True while commands can be run."""
        return self._now.connected

    @property
    def why(self) -> str:
        """Why the connection ended."""
        return self._now.why

    @property
    def waiting(self) -> Callable[[str], None]:
        """Told what connecting waits for."""
        return self._waiting

    @waiting.setter
    def waiting(self, told: Callable[[str], None]) -> None:
        self._waiting = told
        for transport in (self._first, self._other):
            transport.waiting = told  # type: ignore[attr-defined]

    async def connect(self) -> None:
        """Connect by the first way, else by the other, and stay with what let us in. Raises :class:`TransportError`."""
        if self._settled:
            await self._now.connect()
            return
        try:
            await self._first.connect()
        except Declined:
            raise
        except TransportError as refusal:
            try:
                await self._other.connect()
                await self._other.run(["true"])
            except TransportError as error:
                raise TransportError(f"{refusal}; and by another way: {error}") from None
            self._now = self._other
            self._tell(f"{self.name} is reached by steps of its job, for SSH fails there: {refusal}")
        self._settled = True

    def not_responding(self, seconds: float) -> None:
        """Pass it on."""
        self._now.not_responding(seconds)

    async def run(
        self, command: Sequence[str], *, stdin: bytes = b"", timeout: float = 30.0, limit: int = 64 << 20
    ) -> Completed:
        """Run a command; see :class:`~collectors.fleet.transport.Transport`."""
        return await self._now.run(command, stdin=stdin, timeout=timeout, limit=limit)

    async def start(
        self, command: Sequence[str], *, on_stdout: Callable[[bytes], None], on_stderr: Callable[[bytes], None]
    ) -> StreamProcess:
        """Start a command; see :class:`~collectors.fleet.transport.Transport`."""
        return await self._now.start(command, on_stdout=on_stdout, on_stderr=on_stderr)

    async def close(self) -> None:
        """Close both."""
        await self._first.close()
        await self._other.close()
