"""One node's link: it connects, starts the node side, decodes its stream, and reconnects when it is lost."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from collectors.fleet import interpreter, payload
from collectors.fleet.clean import clean_bytes
from collectors.fleet.control import control_line, lend
from collectors.fleet.decode import Decoder, greeted_once
from collectors.fleet.link_state import Backoff, LinkState
from collectors.fleet.share import Share
from collectors.fleet.sink import Sink
from collectors.fleet.transport import Declined, Process, Refused, Transport, TransportError
from collectors.samples.control import Settings
from collectors.samples.stream import Hello, Tick

AGENT = "collectors.node.agent"
FIRST_WORD = 20.0
"""Seconds that the node side may take to send its first sample."""

STEADY = 20.0
"""Seconds live after which a lost node is tried again at once."""

FLOODS = "it sends more than this machine has time for: the rest waits there"
_ERROR_BYTES = 4096
"""Bytes of standard error that are kept."""
_SAID = 300
"""Characters of the last line of standard error that are shown."""


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """Options that all links of a fleet share."""

    sink: Sink
    version: str
    python: str | None
    """The interpreter to use on every node; None to search each node's PATH."""


class NodeLink:
    """Keeps one node connected and its samples coming."""

    def __init__(self, transport: Transport, options: LinkOptions, settings: Settings, python: str) -> None:
        self._transport = transport
        self._options = options
        self.settings = settings
        self.python = options.python or python
        """The interpreter in use on the node, or to be tried first."""
        self._state = LinkState(transport.name, options.sink)
        self._process: Process | None = None
        """The node side, as long as it runs."""
        self._errors = bytearray()
        """The end of its standard error."""
        self._first_word: asyncio.Timeout | None = None
        """Its deadline for the first sample."""
        self._decoder = Decoder()
        self._share = Share()
        self._paused = False
        self._heard_at: float | None = None
        self._ticked_at = 0.0
        self._again = asyncio.Event()
        self._backoff = Backoff()
        self._task: asyncio.Task[None] | None = None

    @property
    def transport(self) -> Transport:
        """The open transport. Raises :class:`TransportError` when the node is not connected."""
        if not self._transport.connected:
            raise TransportError(f"{self._transport.name} is {self._state}")
        return self._transport

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
        self._again.set()

    def configure(self, settings: Settings) -> None:
        """Send new settings, now or once the node is connected."""
        self.settings = settings
        self.beat(control_line(settings))

    def beat(self, line: bytes) -> None:
        """Send a heartbeat, or another control line."""
        if self._process is not None:
            self._process.write(line)

    def look(self, now: float) -> None:
        """Once a second: report bad lines, renew the share of CPU, detect silence. ``now`` is monotonic."""
        for bad in self._decoder.bad_lines():
            self._options.sink.bad_line(self._transport.name, bad.text, bad.why)
        self._share.renew()
        if self._paused and self._process is not None:
            self._paused = False
            self._process.resume()
        if self._state.link == "live" and self._share.exceeded:
            self._state.change("limited", FLOODS)
        elif self._state.link == "limited" and not self._share.exceeded:
            self._state.change("live")
        stale_after = max(3.5, 3.0 * self.settings.interval + 0.5)
        if self._heard_at is not None and (silent := now - self._ticked_at) > stale_after:
            if self._state.link in ("live", "limited"):
                # without seconds: the text stays until the link changes
                self._state.change("stale", "no sample comes any more")
            self._transport.not_responding(silent - self.settings.interval)

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
            self._again.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._again.wait(), wait)
            self._state.change("lost", why)

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
            status = await self._stream()
            if not self._transport.connected:
                return self._transport.why
            if self._heard_at is not None:
                return f"hangtop's part there {self._ended(status)}"
            why = f"{self.python} could not start there (status {status}){self._said()}"
            if self._options.python is not None:
                return why
            found = await interpreter.find(self._transport)
            if found == self.python:
                return why
            self.python = found

    async def _stream(self) -> int:
        """Run the node side to its end, delivering its samples; its status."""
        self._decoder, self._paused = Decoder(), False
        self._errors.clear()
        command = payload.command(self.python, nice=False)
        process = await self._transport.start(command, on_stdout=self._take, on_stderr=self._complain)
        self._process = process
        arguments: dict[str, object] = {"version": self._options.version, "settings": list(self.settings)}
        try:
            process.write(payload.pack(AGENT, arguments))
            async with asyncio.timeout(FIRST_WORD) as self._first_word:
                return await process.wait()
        except TimeoutError:
            raise TransportError(f"{self.python} said nothing there for {FIRST_WORD:.0f} s{self._said()}") from None
        finally:
            self._process = self._first_word = None
            process.kill()

    def _take(self, data: bytes) -> None:
        """Decode and deliver output; what a node sends beyond its share of CPU waits in its pipe."""
        began = time.thread_time()
        samples = greeted_once(self._decoder.feed(data), self._heard_at is not None)
        if samples:
            self._note(samples)
            self._options.sink.samples(self._transport.name, samples)
        self._share.spend(time.thread_time() - began)
        if self._share.used_up and self._process is not None and not self._paused:
            self._paused = True
            self._process.pause()

    def _note(self, samples: Sequence[NamedTuple]) -> None:
        """Update the link's state by the samples that came, and lend the node side what it asks for."""
        ticked = any(type(sample) is Tick for sample in samples)
        if ticked:
            self._ticked_at = time.monotonic()
        hello = next((sample for sample in samples if isinstance(sample, Hello)), None)
        if hello is not None:
            self._heard_at = self._ticked_at = time.monotonic()
            if self._first_word is not None:
                self._first_word.reschedule(None)
            self._state.change("live")
            for line in filter(None, map(lend, hello.wants)):
                self.beat(line)
        elif ticked and self._state.link == "stale":
            self._state.change("live")

    def _complain(self, data: bytes) -> None:
        self._errors += data
        del self._errors[:-_ERROR_BYTES]

    def _ended(self, status: int) -> str:
        """A predicate for people: ``ended (status 1): …``."""
        if status == -signal.SIGALRM:  # its watchdog
            return "heard nothing from here for too long and ended itself"
        if status < 0:
            known = -status in signal.Signals.__members__.values()
            return f"was killed ({signal.Signals(-status).name if known else f'signal {-status}'})"
        return f"ended (status {status}){self._said()}"

    def _said(self) -> str:
        """The last line of its standard error, behind a colon; empty where there is none."""
        lines = clean_bytes(bytes(self._errors)).strip().splitlines()
        return f": {lines[-1].strip()[:_SAID]}" if lines else ""
