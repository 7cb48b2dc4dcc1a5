"""One node's connection through its life: connecting, live, limited, stale, lost, and back."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from collectors.fleet import interpreter, payload
from collectors.fleet.backoff import Backoff
from collectors.fleet.clean import clean_bytes
from collectors.fleet.decode import Decoder
from collectors.fleet.sink import Link, LinkChange, Sink
from collectors.fleet.transport import Declined, Process, Refused, Transport, TransportError
from collectors.samples.control import Settings
from collectors.samples.stream import Hello, Tick

if TYPE_CHECKING:
    from collectors.fleet.gpu_stream import GpuStream

AGENT = "collectors.node.agent"
FIRST_WORD = 20.0
"""Seconds that the node side may take to say its first word."""

STEADY = 20.0
"""Seconds of life after which a node that is lost is tried again at once."""

_ERROR_LIMIT = 2000
_LOOK_AGAIN = 60.0


class StreamProcess(Process, Protocol):
    """A process whose output can be held back."""

    def pause(self) -> None:
        """Take no more of its output for now."""

    def resume(self) -> None:
        """Take its output again."""


class LinkTransport(Transport, Protocol):
    """What a link needs of its transport beyond running commands."""

    @property
    def connected(self) -> bool:
        """True while commands can be run."""

    @property
    def why(self) -> str:
        """Why the connection ended."""

    async def start(
        self, command: Sequence[str], *, on_stdout: Callable[[bytes], None], on_stderr: Callable[[bytes], None]
    ) -> StreamProcess:
        """Start a command; see :class:`~collectors.fleet.transport.Transport`."""


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """What all links of a fleet have in common."""

    sink: Sink
    version: str
    extra: Mapping[str, bytes]
    """Further files of the payload."""
    python: str | None
    """The interpreter to use on every node; None to look for one."""


class NodeLink:
    """Keeps one node connected and its samples coming."""

    def __init__(self, transport: LinkTransport, options: LinkOptions, settings: Settings, python: str) -> None:
        self._transport = transport
        self._options = options
        self._settings = settings
        self.python = options.python or python
        """The interpreter in use there, or to be tried first."""
        self._link: Link = "connecting"
        self._why = ""
        self._said: tuple[Link, str, float | None] | None = None
        self._steady: Link = "live"
        self._steady_why = ""
        self._process: StreamProcess | None = None
        self._decoder = Decoder()
        self._paused = False
        self._heard_at: float | None = None
        self._ticked_at = 0.0
        # Made while somebody waits: an event that waits for nothing takes 700 bytes, in each of thousands of nodes.
        self._first_word: asyncio.Event | None = None
        self._again: asyncio.Event | None = None
        self._backoff = Backoff()
        self._task: asyncio.Task[None] | None = None

    @property
    def transport(self) -> LinkTransport:
        """The open transport. Raises :class:`TransportError` when the node is not connected."""
        if not self._transport.connected:
            raise TransportError(f"{self._transport.name} is {self._link}" + (f": {self._why}" if self._why else ""))
        return self._transport

    @property
    def up(self) -> bool:
        """True once its node side has spoken, until it ends."""
        return self._heard_at is not None

    # --- what the fleet asks of it --------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin."""
        self._change("connecting")
        self._task = asyncio.ensure_future(self._run())
        self._task.add_done_callback(self._fell_over)

    async def close(self) -> None:
        """End it and what runs on the node."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None
        await self._transport.close()

    def retry(self) -> None:
        """Try now rather than later."""
        if self._again is not None:
            self._again.set()

    def configure(self, settings: Settings) -> None:
        """Send new settings, now or when the node is there."""
        self._settings = settings
        if self._process is not None and self._steady == "live":
            self._process.write(_line(settings))

    def beat(self, line: bytes) -> None:
        """Pass a heartbeat on."""
        if self._process is not None:
            self._process.write(line)

    def look(self, now: float) -> None:
        """Once a second: is what it shows fresh, and what came that could not be used? ``now`` is monotonic."""
        for bad in self._decoder.renew():
            self._options.sink.bad_line(self._transport.name, bad.text, bad.why)
        if self._paused and self._process is not None:
            self._paused = False
            self._process.resume()
        if self._link in ("live", "limited") and self._heard_at is not None:
            silent = now - self._ticked_at
            if silent > self._stale_after:
                self._change("stale", f"no sample for {silent:.0f} s")

    def waits_for(self, reason: str) -> None:
        """Connecting waits for a person, or, with an empty reason, for nothing more than the network."""
        self._tell(self._link, reason or self._why, None)

    @property
    def _stale_after(self) -> float:
        return max(3.5, 3.0 * self._settings.interval + 0.5)

    # --- its life -------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            wait: float | None
            try:
                await self._transport.connect()
                why = await self._serve()
                wait = self._failed()
            except Declined as error:
                why, wait = str(error), None
            except Refused as error:
                why, wait = str(error), self._backoff.refused()
            except TransportError as error:
                why, wait = str(error), self._failed()
            self._heard_at = None
            self._change("lost", why, None if wait is None else time.time() + wait)
            await self._pause(wait)
            self._change("lost", why)

    async def _pause(self, seconds: float | None) -> None:
        """Wait so long, None for ever, or until it shall be tried again."""
        self._again = asyncio.Event()
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._again.wait(), seconds)
        finally:
            self._again = None

    def _failed(self) -> float:
        """Seconds to wait; few when it was well for a while."""
        if self._heard_at is not None and time.monotonic() - self._heard_at > STEADY:
            self._backoff.succeeded()
        return self._backoff.failed()

    def _fell_over(self, task: asyncio.Task[None]) -> None:
        """A fault of our own ended the link: say so where the node is shown, and where faults are."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        self._change("lost", f"a fault in hangtop: {error!r}")
        task.get_loop().call_exception_handler({"message": f"link of {self._transport.name}", "exception": error})

    async def _serve(self) -> str:
        """Stream until it ends; returns why. Raises :class:`TransportError`."""
        while True:
            status, errors = await self._stream()
            if self._heard_at is not None or not self._transport.connected:
                return self._why_ended(status, errors)
            if self._options.python is not None:
                return self._why_failed(status, errors)
            found = await interpreter.find(self._transport)
            if not found.host:
                return f"no shell runs commands there: {found.noise or _last_line(errors) or f'status {status}'}"
            if not found.python:
                return await self._serve_without_python(found)
            if found.python == self.python:
                return self._why_failed(status, errors)
            self.python = found.python

    async def _stream(self) -> tuple[int, bytes]:
        """Run the node side; its exit status and the end of what it said on standard error."""
        name, sink = self._transport.name, self._options.sink
        decoder = self._decoder = Decoder()

        def take(data: bytes) -> None:
            samples = decoder.feed(data)
            if samples:
                starting = self._heard_at is None
                self._note(samples)
                if starting:
                    self._lend(samples)
                sink.samples(name, samples, len(data))
            if decoder.flooded and self._process is not None and not self._paused:
                self._paused = True
                self._process.pause()

        self._steady, self._steady_why = "live", ""
        return await self._attend(payload.command(self.python, nice=False), self._program, take, FIRST_WORD)

    def _program(self) -> bytes:
        arguments = {"version": self._options.version, "settings": list(self._settings)}
        return payload.pack(AGENT, arguments, extra=self._options.extra)

    async def _attend(
        self, command: list[str], program: Callable[[], bytes], take: Callable[[bytes], None], first_word: float | None
    ) -> tuple[int, bytes]:
        """Run a streaming command to its end; it has ``first_word`` seconds to say something."""
        errors = bytearray()

        def complain(data: bytes) -> None:
            errors.extend(data)
            del errors[:-_ERROR_LIMIT]

        self._paused = False
        self._first_word = asyncio.Event()
        process = await self._transport.start(command, on_stdout=take, on_stderr=complain)
        self._process = process
        try:
            process.write(program())  # made on the spot: 2,048 links must not hold 2,048 copies of it
            if first_word is not None:
                await self._await_first_word(process, self._first_word, first_word, errors)
            self._first_word = None
            status = await process.wait()
        finally:
            self._process = self._first_word = None
            process.kill()
        return status, bytes(errors)

    async def _await_first_word(
        self, process: StreamProcess, word: asyncio.Event, seconds: float, errors: bytearray
    ) -> None:
        ending = asyncio.ensure_future(process.wait())
        hearing = asyncio.ensure_future(word.wait())
        try:
            done, _ = await asyncio.wait({ending, hearing}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            hearing.cancel()
        if not done:
            raise TransportError(f"{self.python} said nothing there for {seconds:.0f} s{_tail(errors)}")

    def _lend(self, samples: Sequence[NamedTuple]) -> None:
        """Send what the node side says that it wants."""
        for sample in samples:
            if isinstance(sample, Hello) and sample.wants:
                from collectors.fleet.lending import lend

                for line in filter(None, map(lend, sample.wants)):
                    if self._process is not None:
                        self._process.write(line)

    def _note(self, samples: Sequence[NamedTuple]) -> None:
        """Keep the link's state in step with what came."""
        ticked = type(samples[-1]) is Tick or any(type(sample) is Tick for sample in samples)
        if ticked:
            self._ticked_at = time.monotonic()
        if self._heard_at is None and any(type(sample) is Hello for sample in samples):
            self._heard_at = self._ticked_at = time.monotonic()
            if self._first_word is not None:
                self._first_word.set()
            self._change(self._steady, self._steady_why)
        elif ticked and self._link == "stale":
            self._change(self._steady, self._steady_why)

    # --- without Python -------------------------------------------------------------------------------------------

    async def _serve_without_python(self, found: interpreter.Found) -> str:
        """Show the GPUs at least. Returns why it ended; raises :class:`TransportError`."""
        from collectors.fleet import gpu_stream  # 20 ms that a fleet with Python need not wait for

        greeting = [gpu_stream.hello(self._options.version, found.host)]
        self._options.sink.samples(self._transport.name, greeting, 0)
        while not found.python:
            try:
                columns = await gpu_stream.choose_columns(self._transport)
                trouble = "there is no nvidia-smi"
            except TransportError:
                if not self._transport.connected:
                    raise
                columns, trouble = None, "nvidia-smi does not answer"
            if columns is not None:
                return await self._stream_gpus(gpu_stream.GpuStream(columns, self._take_gpus), found.why)
            self._change("limited", f"{found.why}, and {trouble}: nothing can be read there")
            await self._pause(_LOOK_AGAIN)
            found = await interpreter.find(self._transport)
        return "there is a Python now"

    async def _stream_gpus(self, stream: GpuStream, why: str) -> str:
        self._steady, self._steady_why = "limited", f"{why}: only what nvidia-smi says of its GPUs"
        self._heard_at = self._ticked_at = time.monotonic()
        self._change(self._steady, self._steady_why)
        status, errors = await self._attend(stream.command(self._settings.interval), bytes, stream.feed, None)
        return self._why_ended(status, errors)

    def _take_gpus(self, samples: list[NamedTuple], size: int) -> None:
        self._note(samples)
        self._options.sink.samples(self._transport.name, samples, size)

    # --- words ----------------------------------------------------------------------------------------------------

    def _change(self, link: Link, why: str = "", next_try: float | None = None) -> None:
        self._link, self._why = link, why
        self._tell(link, why, next_try)

    def _tell(self, link: Link, why: str, next_try: float | None) -> None:
        if (link, why, next_try) != self._said:
            self._said = (link, why, next_try)
            self._options.sink.link(LinkChange(self._transport.name, link, why, time.time(), next_try))

    def _why_ended(self, status: int, errors: bytes) -> str:
        if not self._transport.connected:
            return self._transport.why
        if status == -signal.SIGALRM:
            return "hangtop's part there heard nothing from here for too long and ended itself"
        if status < 0:
            return f"hangtop's part there was killed ({_signal_name(-status)})"
        return f"hangtop's part there ended (status {status}){_tail(errors)}"

    def _why_failed(self, status: int, errors: bytes) -> str:
        return f"{self.python} could not start there (status {status}){_tail(errors)}"


def _line(sample: NamedTuple) -> bytes:
    return json.dumps([type(sample).__name__, sample], separators=(",", ":")).encode() + b"\n"


def _last_line(errors: bytes | bytearray) -> str:
    lines = clean_bytes(bytes(errors)).strip().splitlines()
    return lines[-1].strip()[:300] if lines else ""


def _tail(errors: bytes | bytearray) -> str:
    said = _last_line(errors)
    return f": {said}" if said else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
