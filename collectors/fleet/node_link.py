"""One node's link: it connects, starts the node side, decodes its stream, and reconnects when it is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from collectors.fleet import interpreter, payload
from collectors.fleet.control import control_line, lend
from collectors.fleet.decode import Decoder, greeted_once
from collectors.fleet.link_state import Backoff, LinkState
from collectors.fleet.share import Share
from collectors.fleet.sink import Sink
from collectors.fleet.streaming import Ended, Streaming
from collectors.fleet.transport import Declined, LinkTransport, Refused, TransportError
from collectors.samples.control import Settings
from collectors.samples.stream import Hello, Tick

AGENT = "collectors.node.agent"
FIRST_WORD = 20.0
"""Seconds that the node side may take to send its first sample."""

STEADY = 20.0
"""Seconds live after which a lost node is tried again at once."""

FLOODS = "it sends more than this machine has time for: the rest waits there"


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """Options that all links of a fleet share."""

    sink: Sink
    version: str
    extra: Mapping[str, bytes]
    """Further files of the payload."""
    python: str | None
    """The interpreter to use on every node; None to search each node's PATH."""


class NodeLink:
    """Keeps one node connected and its samples coming."""

    def __init__(self, transport: LinkTransport, options: LinkOptions, settings: Settings, python: str) -> None:
        self._transport = transport
        self._options = options
        self.settings = settings
        self.python = options.python or python
        """The interpreter in use on the node, or to be tried first."""
        self._state = LinkState(transport.name, options.sink)
        self._streaming: Streaming | None = None
        self._decoder = Decoder()
        self._share = Share()
        self._heard_at: float | None = None
        self._ticked_at = 0.0
        self._again: asyncio.Event | None = None
        """Exists only while the link waits for its next attempt: an idle event takes 700 bytes a link."""
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
        """True from the node side's first sample until its end."""
        return self._heard_at is not None

    # --- what the fleet asks of it --------------------------------------------------------------------------------

    def start(self) -> None:
        """Start to connect."""
        self._state.change("connecting")
        self._task = asyncio.ensure_future(self._run())
        self._task.add_done_callback(self._fell_over)

    async def close(self) -> None:
        """Close the link; what runs on the node ends."""
        self._state.quiet = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None
        await self._transport.close()

    def retry(self) -> None:
        """Make the next attempt now."""
        if self._again is not None:
            self._again.set()

    def configure(self, settings: Settings) -> None:
        """Send new settings, now or once the node is connected."""
        self.settings = settings
        if self._streaming is not None:
            self._streaming.write(control_line(settings))

    def beat(self, line: bytes) -> None:
        """Send a heartbeat."""
        if self._streaming is not None:
            self._streaming.write(line)

    def look(self, now: float) -> None:
        """Once a second: report bad lines, renew the share of CPU, detect silence. ``now`` is monotonic."""
        for bad in self._decoder.bad_lines():
            self._options.sink.bad_line(self._transport.name, bad.text, bad.why)
        self._share.renew()
        if self._streaming is not None:
            self._streaming.resume()
        if self._state.link == "live" and self._share.exceeded:
            self._state.change("limited", FLOODS)
        elif self._state.link == "limited" and self._state.why == FLOODS and not self._share.exceeded:
            self._state.change("live")
        if self._heard_at is not None and (silent := now - self._ticked_at) > self._stale_after:
            if self._state.link in ("live", "limited"):
                # without seconds: the text stays until the link changes
                self._state.change("stale", "no sample comes any more")
            self._transport.not_responding(silent - self.settings.interval)

    def waits_for(self, reason: str) -> None:
        """Show that connecting waits for a person; with an empty reason, that it no longer does."""
        self._state.waits_for(reason)

    @property
    def _stale_after(self) -> float:
        return max(3.5, 3.0 * self.settings.interval + 0.5)

    # --- its life -------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            wait: float | None
            try:
                await self._transport.connect(self.waits_for)
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
        """Wait for ``seconds`` (None: for ever), or until :meth:`retry`."""
        self._again = asyncio.Event()
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._again.wait(), seconds)
        finally:
            self._again = None

    def _failed(self) -> float:
        """Seconds until the next attempt; the backoff starts anew after a steady connection."""
        if self._heard_at is not None and time.monotonic() - self._heard_at > STEADY:
            self._backoff.succeeded()
        return self._backoff.failed()

    def _fell_over(self, task: asyncio.Task[None]) -> None:
        """Report a fault of hangtop that ended the link, at the node and to the loop's exception handler."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        self._state.change("lost", f"a fault in hangtop: {error!r}")
        task.get_loop().call_exception_handler({"message": f"link of {self._transport.name}", "exception": error})

    async def _serve(self) -> str:
        """Run the node side until it ends; returns why it ended. Raises :class:`TransportError`."""
        while True:
            ended = await self._stream()
            if self.up or not self._transport.connected:
                return self._why_ended(ended)
            why = f"{self.python} could not start there (status {ended.status}){ended.told}"
            if self._options.python is not None:
                return why
            found = await interpreter.find(self._transport)
            if found == self.python:
                return why
            self.python = found

    async def _stream(self) -> Ended:
        """Run the node side to its end, delivering its samples."""
        name, sink = self._transport.name, self._options.sink
        decoder = self._decoder = Decoder()

        def take(data: bytes) -> None:
            began = time.thread_time()
            samples = greeted_once(decoder.feed(data), self._heard_at is not None)
            if samples:
                starting = self._heard_at is None
                self._note(samples)
                if starting:
                    self._lend(samples)
                sink.samples(name, samples, len(data))
            self._share.spend(time.thread_time() - began)
            if self._share.used_up and self._streaming is not None:
                self._streaming.pause()

        self._streaming = Streaming(self._transport, take)
        try:
            command = payload.command(self.python, nice=False)
            return await self._streaming.run(command, self._program, FIRST_WORD, self.python)
        finally:
            self._streaming = None

    def _program(self) -> bytes:
        arguments: dict[str, object] = {"version": self._options.version, "settings": list(self.settings)}
        return payload.pack(AGENT, arguments, extra=self._options.extra)

    def _lend(self, samples: Sequence[NamedTuple]) -> None:
        """Send the modules that the node side asks for in its ``Hello``."""
        for sample in samples:
            if isinstance(sample, Hello) and sample.wants:
                for line in filter(None, map(lend, sample.wants)):
                    if self._streaming is not None:
                        self._streaming.write(line)

    def _note(self, samples: Sequence[NamedTuple]) -> None:
        """Update the link's state by the samples that came."""
        ticked = type(samples[-1]) is Tick or any(type(sample) is Tick for sample in samples)
        if ticked:
            self._ticked_at = time.monotonic()
        if self._heard_at is None and any(type(sample) is Hello for sample in samples):
            self._heard_at = self._ticked_at = time.monotonic()
            if self._streaming is not None:
                self._streaming.heard()
            self._state.change("live")
        elif ticked and self._state.link == "stale":
            self._state.change("live")

    def _why_ended(self, ended: Ended) -> str:
        return f"hangtop's part there {ended}" if self._transport.connected else self._transport.why
