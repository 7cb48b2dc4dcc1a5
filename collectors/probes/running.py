"""A program of ours on a node, from start to end: the only way to run a program there and to read its output.

Heartbeats keep the program alive, and it ends within ten seconds of the last heartbeat (``collectors.node.watchdog``).
Its output counts as hostile: output is bounded, decoded by type, and freed of control codes; no output raises.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Self, TypeVar

import msgspec

from collectors.fleet import bounds, payload
from collectors.fleet.clean import clean_value, last_line
from collectors.fleet.transport import BROKEN, Process, Transport, TransportError
from collectors.samples.probes import Observation

T = TypeVar("T")

ANSWERED = b'["Answered",'
"""How the line begins that ends an answer."""
TOO_SLOW = (-signal.SIGALRM, 128 + signal.SIGALRM)
"""Status of a process that its watchdog ended, from the kernel and from a shell."""
BEAT_SECONDS = 2.0
BEAT = b"\n"
"""An empty line, which programs that read lines ignore."""

Take = Callable[[bytes], bool]
"""Takes one line, or with ``raw`` any chunk; True for the last one. Raises one of :data:`Unreadable` for unreadable
data."""


# --- output ------------------------------------------------------------------------------------------------------

Unreadable = (msgspec.MsgspecError, ValueError, RecursionError)
"""Exceptions of decoding; UnicodeDecodeError is a ValueError."""
_NAME = msgspec.json.Decoder(tuple[str, msgspec.Raw]).decode


def answer(kind: type[T]) -> Callable[[bytes], T]:
    """A decoder of lines ``["Kind", [fields]]`` of one kind. It raises one of :data:`Unreadable`."""
    bounds.bind(kind)
    decode = msgspec.json.Decoder(kind).decode

    def of(line: bytes) -> T:
        value = decode(_NAME(line)[1])
        # printable ASCII without escapes, such as megabytes in base 64, needs no cleaning
        plain = line.isascii() and b"\\" not in line and b"\x7f" not in line
        cleaned: T = value if plain else clean_value(value)
        return cleaned

    return of


# --- one run -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limits:
    """Most bytes of output: in one line, and on standard output in total.

    The default fits some ten thousand answers: as objects here they take ten times the memory, and a hostile node sends
    as much as it may.
    """

    line: int = 1 << 20
    total: int = 8 << 20


LIMITS = Limits()
ERRORS = 4096
"""Most bytes kept of standard error."""


class Running:
    """A packed program on a node; an async context manager that ends the program on exit."""

    def __init__(
        self, transport: Transport, command: Sequence[str], packed: bytes, take: Take, *, raw: bool = False,
        limits: Limits = LIMITS,
    ) -> None:  # fmt: skip
        self._name = transport.name
        self._by: Transport | None = transport  # dropped at start: objects kept per transport hold this
        self._command = command
        self._packed = packed
        self._take = take
        self._raw = raw
        self._limits = limits
        self._process: Process | None = None
        self._rest = bytearray()
        self._left = limits.total
        self._errors = bytearray()
        self._done = asyncio.Event()
        self._end: asyncio.Task[int] | None = None
        self._beating: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()

    async def start(self) -> None:
        """Start the program, which lives until :meth:`stop`. Raises :class:`TransportError`."""
        transport, self._by = self._by, None
        assert transport is not None, "it is started once"
        self._process = await transport.start(self._command, on_stdout=self._receive, on_stderr=self._note_error)
        self._process.write(self._packed)
        self._end = asyncio.create_task(self._process.wait(), name="hangtop running")
        self._beating = asyncio.create_task(_beat(self._process), name="hangtop beating")
        self._end.add_done_callback(lambda _: self._stop_beating())

    def stop(self) -> None:
        """End the program and its children; may be called again."""
        self._stop_beating()
        if self._process is not None:
            self._process.write_eof()
            self._process.kill()

    def write(self, data: bytes) -> None:
        """Write to its standard input."""
        assert self._process is not None
        self._process.write(data)

    def renew(self, data: bytes) -> None:
        """Send another request: limits count anew, up to the next last line."""
        self._left = self._limits.total
        self._errors.clear()
        self._done.clear()
        self.write(data)

    @property
    def over(self) -> bool:
        """True if the program is not running: not yet started, or ended."""
        return self._end is None or self._end.done()

    async def ended(self, seconds: float | None = None) -> int:
        """Wait for its end and return its exit status. Raises :class:`TimeoutError`."""
        assert self._end is not None
        return await asyncio.wait_for(asyncio.shield(self._end), seconds)

    def when_over(self, call: Callable[[int], None]) -> None:
        """Call ``call`` with its exit status once it has ended."""
        assert self._end is not None
        self._end.add_done_callback(lambda end: None if end.cancelled() else call(end.result()))

    async def finished(self, seconds: float) -> None:
        """Wait for the last line. Raises :class:`TransportError` if the program ends before, or takes too long."""
        assert self._end is not None
        done = asyncio.ensure_future(self._done.wait())
        try:
            await asyncio.wait((done, self._end), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not self._done.is_set():
                raise TransportError(f"{self._name}: {self._why(seconds)}")
        finally:
            done.cancel()

    def last_error(self) -> str:
        """The last line of its standard error, or why its output cannot be used."""
        return last_line(self._errors)

    def _why(self, seconds: float) -> str:
        """Why there is no last line."""
        assert self._end is not None
        if self._end.done() and self._end.result() == BROKEN:
            return "the connection was lost before it had answered"
        if self._end.done() and self._end.result() in TOO_SLOW:
            return "it was too slow to answer: it received no heartbeat for ten seconds and ended itself"
        return self.last_error() or ("it ended early" if self._end.done() else f"no answer in {seconds:.0f} s")

    def _stop_beating(self) -> None:
        if self._beating is not None:
            self._beating.cancel()

    def _note_error(self, data: bytes) -> None:
        self._errors += data
        del self._errors[:-ERRORS]

    def _receive(self, data: bytes) -> None:
        if self._left < 0:
            return
        self._left -= len(data)
        if self._left < 0:
            self._give_up(f"more than {self._limits.total >> 20} MB")
        elif self._raw:
            self._take_one(data)
        else:
            for number, part in enumerate(data.split(b"\n")):
                if number:  # a line has ended
                    line = bytes(self._rest)
                    self._rest.clear()
                    self._take_one(line)
                self._rest += part
            if len(self._rest) > self._limits.line:
                self._give_up(f"a line of more than {self._limits.line >> 20} MB")

    def _give_up(self, why: str) -> None:
        self._note_error(f"\nit said {why}, and was ended\n".encode())
        self._left = -1
        self.stop()

    def _take_one(self, part: bytes) -> None:
        try:
            if self._take(part):
                self._done.set()
        except Unreadable as error:
            self._note_error(f"\nunreadable answer: {error}\n".encode("utf-8", "replace"))


async def _beat(process: Process) -> None:
    while True:
        await asyncio.sleep(BEAT_SECONDS)
        process.write(BEAT)


# --- questions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeAccess:
    """A node that takes part: its connection and its address in the job's network."""

    name: str
    transport: Transport
    address: str


@asynccontextmanager
async def asking(
    transport: Transport, entry: str, arguments: Mapping[str, object], read: Callable[[bytes], T],
    seconds: float, *, limits: Limits = LIMITS,
) -> AsyncIterator[list[T]]:  # fmt: skip
    """The answers of the program ``entry``; the program runs until the context is left.

    Raises :class:`TransportError`.
    """
    found: list[T] = []

    def take(line: bytes) -> bool:
        if line.startswith(ANSWERED):
            return True
        found.append(read(line))
        return False

    packed = payload.pack(entry, dict(arguments))
    async with Running(transport, payload.command(transport.python), packed, take, limits=limits) as running:
        await running.finished(seconds)
        yield found


async def collect(
    transport: Transport, entry: str, arguments: Mapping[str, object], read: Callable[[bytes], T],
    seconds: float, *, limits: Limits = LIMITS,
) -> list[T]:  # fmt: skip
    """:func:`asking` for a program that need not live on after its answers."""
    async with asking(transport, entry, arguments, read, seconds, limits=limits) as found:
        return found


observation = answer(Observation)


def observing(
    node: NodeAccess, entry: str, arguments: Mapping[str, object], seconds: float
) -> AbstractAsyncContextManager[list[Observation]]:
    """Observations that a program answers; it runs until the context is left. Entering may raise TransportError."""
    return asking(node.transport, entry, arguments, observation, seconds)


async def observe(node: NodeAccess, entry: str, arguments: Mapping[str, object], seconds: float) -> list[Observation]:
    """:func:`observing` for a program that need not live on after its answers."""
    async with observing(node, entry, arguments, seconds) as found:
        return found
