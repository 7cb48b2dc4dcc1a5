"""One node's connection through its life: connecting, live, limited, stale, lost, and back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from collectors.fleet import interpreter, payload, stopped
from collectors.fleet.backoff import Backoff
from collectors.fleet.control import control_line
from collectors.fleet.decode import SUSTAINED, Decoder, greeted_once
from collectors.fleet.held_up import HeldUp, noted
from collectors.fleet.link_options import LinkOptions
from collectors.fleet.link_state import LinkState
from collectors.fleet.streaming import Ended, LinkTransport, Streaming
from collectors.fleet.transport import Declined, Refused, TransportError
from collectors.samples.control import Settings
from collectors.samples.stream import Hello, Tick

if TYPE_CHECKING:
    from collectors.fleet.gpu_stream import GpuStream

AGENT = "collectors.node.agent"
FIRST_WORD = 20.0
"""Seconds that the node side may take to say its first word."""

STEADY = 20.0
"""Seconds of life after which a node that is lost is tried again at once."""

FLOODS = f"it sends more than {SUSTAINED >> 10} KiB a second: no more than that is read"

_LOOK_AGAIN = 60.0


class NodeLink:
    """Keeps one node connected and its samples coming."""

    def __init__(self, transport: LinkTransport, options: LinkOptions, settings: Settings, python: str) -> None:
        self._transport = transport
        self._options = options
        self.settings = settings
        self.python = options.python or python
        """The interpreter in use there, or to be tried first, as :mod:`collectors.fleet.interpreter` finds it."""
        self._state = LinkState(transport.name, options.sink)
        self._streaming: Streaming | None = None
        self._decoder = Decoder()
        self._pid = 0
        """Of the node side, as it says."""
        self._held_up: HeldUp | None = None
        """Made when its side was ended by its alarm for the first time."""
        self._heard_at: float | None = None
        self._ticked_at = 0.0
        self._again: asyncio.Event | None = None
        """Made while it waits: an event that waits for nothing takes 700 bytes, in each of thousands of nodes."""
        self._backoff = Backoff()
        self._task: asyncio.Task[None] | None = None

    @property
    def transport(self) -> LinkTransport:
        """The open transport. Raises :class:`TransportError` when the node is not connected."""
        if not self._transport.connected:
            raise TransportError(f"{self._transport.name} is {self._state}")
        return self._transport

    @property
    def up(self) -> bool:
        """True once its node side has spoken, until it ends."""
        return self._heard_at is not None

    # --- what the fleet asks of it --------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin."""
        self._state.change("connecting")
        self._task = asyncio.ensure_future(self._run())
        self._task.add_done_callback(self._fell_over)

    async def close(self) -> None:
        """End it and what runs on the node."""
        self._state.quiet = True
        process = None if self._streaming is None else self._streaming.process
        if process is not None and self.up and self._transport.connected:
            await stopped.end(self._transport, process, self._pid)
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
        self.settings = settings
        if self._streaming is not None and self._state.steady == "live":
            self._streaming.write(control_line(settings))

    def beat(self, line: bytes) -> None:
        """Pass a heartbeat on."""
        if self._streaming is not None:
            self._streaming.write(line)

    def look(self, now: float) -> None:
        """Once a second: is what it shows fresh, and what came that could not be used? ``now`` is monotonic."""
        for bad in self._decoder.renew():
            self._options.sink.bad_line(self._transport.name, bad.text, bad.why)
        if self._streaming is not None:
            self._streaming.resume()
        if self._state.link == "live" and self._decoder.exhausted:
            self._state.change("limited", FLOODS)
        elif self._state.link == "limited" and self._state.why == FLOODS and not self._decoder.exhausted:
            self._state.recover()
        if self._heard_at is not None and (silent := now - self._ticked_at) > self._stale_after:
            if self._state.link in ("live", "limited"):
                # no seconds here: this stands as it is until the link changes, and they would not
                self._state.change("stale", "no sample comes any more")
            self._transport.not_responding(silent - self.settings.interval)

    def waits_for(self, reason: str) -> None:
        """Connecting waits for a person, or, with an empty reason, for nothing more than the network."""
        self._state.waits_for(reason)

    @property
    def _stale_after(self) -> float:
        return max(3.5, 3.0 * self.settings.interval + 0.5)

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
            why = why.removeprefix(f"{self._transport.name}: ")
            self._state.change("lost", why, None if wait is None else time.time() + wait)
            await self._pause(wait)
            self._state.change("lost", why)

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
        self._state.change("lost", f"a fault in hangtop: {error!r}")
        task.get_loop().call_exception_handler({"message": f"link of {self._transport.name}", "exception": error})

    async def _serve(self) -> str:
        """Stream until it ends; returns why. Raises :class:`TransportError`."""
        while True:
            ended = await self._stream()
            if self._heard_at is not None or not self._transport.connected:
                return self._why_ended(ended)
            why = f"{interpreter.shown(self.python)} could not start there (status {ended.status}){ended.told}"
            if self._options.python is not None:
                return why
            found = await interpreter.find(self._transport)
            if not found.host:
                said = found.noise or ended.last_line or f"status {ended.status}"
                return f"no shell runs commands there: {said}"
            if not found.python:
                if why := await self._serve_without_python(found):
                    return why
                continue  # there is one now
            if found.python == self.python:
                return why
            self.python = found.python

    async def _stream(self) -> Ended:
        """Run the node side to its end."""
        name, sink = self._transport.name, self._options.sink
        decoder = self._decoder = Decoder()

        def take(data: bytes) -> None:
            samples = greeted_once(decoder.feed(data), self._heard_at is not None)
            if samples:
                starting = self._heard_at is None
                self._note(samples)
                if starting:
                    self._lend(samples)
                sink.samples(name, samples, len(data))
            if decoder.flooded and self._streaming is not None:
                self._streaming.pause()

        self._state.steady, self._state.steady_why = "live", ""
        command = payload.command(self.python, nice=False)
        return await self._attend(command, self._program, take, FIRST_WORD)

    def _program(self) -> bytes:
        arguments: dict[str, object] = {"version": self._options.version, "settings": list(self.settings)}
        if self._held_up is not None:
            arguments["unread"] = self._held_up.unread()
        return payload.pack(AGENT, arguments, extra=self._options.extra)

    async def _attend(
        self, command: list[str], program: Callable[[], bytes], take: Callable[[bytes], None], first_word: float | None
    ) -> Ended:
        """Run a streaming command to its end; it has ``first_word`` seconds to say something."""
        self._streaming = Streaming(self._transport, take)
        try:
            return await self._streaming.run(command, program, first_word, interpreter.shown(self.python))
        finally:
            self._streaming = None

    def _lend(self, samples: Sequence[NamedTuple]) -> None:
        """Send what the node side says that it wants."""
        for sample in samples:
            if isinstance(sample, Hello) and sample.wants:
                from collectors.fleet.lending import lend

                for line in filter(None, map(lend, sample.wants)):
                    if self._streaming is not None:
                        self._streaming.write(line)

    def _note(self, samples: Sequence[NamedTuple]) -> None:
        """Keep the link's state in step with what came."""
        self._held_up = noted(self._held_up, samples)
        ticked = type(samples[-1]) is Tick or any(type(sample) is Tick for sample in samples)
        if ticked:
            self._ticked_at = time.monotonic()
        hellos = [sample for sample in samples if isinstance(sample, Hello)] if self._heard_at is None else ()
        if hellos:
            self._pid = hellos[0].pid
            self._heard_at = self._ticked_at = time.monotonic()
            if self._streaming is not None:
                self._streaming.heard()
            self._state.recover()
        elif ticked and self._state.link == "stale":
            self._state.recover()

    # --- without Python -------------------------------------------------------------------------------------------

    async def _serve_without_python(self, found: interpreter.FoundPython) -> str:
        """Show the GPUs at least until there is a Python. Returns why it ended else; raises :class:`TransportError`."""
        from collectors.fleet import gpu_stream  # 20 ms that a fleet with Python need not wait for

        self._options.sink.samples(self._transport.name, [gpu_stream.hello(self._options.version, found.host)], 0)
        while not found.python:
            columns, missing = await gpu_stream.offered(self._transport)
            if columns is not None:
                ended = await self._stream_gpus(gpu_stream.GpuStream(columns, self._take_gpus), found.why)
                if isinstance(ended, Ended):
                    return self._why_ended(ended)
                found = ended
            else:
                self._state.change("limited", f"{found.why}, and {missing}: nothing can be read there")
                await self._pause(_LOOK_AGAIN)
                found = await interpreter.find(self._transport)
        self.python, self._heard_at = found.python, None
        return ""

    async def _stream_gpus(self, stream: GpuStream, why: str) -> Ended | interpreter.FoundPython:
        self._state.steady, self._state.steady_why = "limited", f"{why}: only what nvidia-smi says of its GPUs"
        self._heard_at = self._ticked_at = time.monotonic()
        self._state.recover()
        rows = self._attend(stream.command(self.settings.interval), bytes, stream.feed, None)
        return await interpreter.or_python(self._transport, rows, _LOOK_AGAIN)

    def _take_gpus(self, samples: list[NamedTuple], size: int) -> None:
        self._note(samples)
        self._options.sink.samples(self._transport.name, samples, size)

    def _why_ended(self, ended: Ended) -> str:
        if not self._transport.connected:
            return self._transport.why
        if ended.by_alarm:
            self._held_up = self._held_up or HeldUp()
            found = self._held_up.note(ended.errors)
            if found is not None:
                part = f" (part {found.part})" if found.part else ""
                return f"hangtop's part there {ended}; it was reading a log{part}"
        return f"hangtop's part there {ended}"
