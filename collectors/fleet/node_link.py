"""One node's link: it connects, starts the agent ("node side"), decodes its stream, and reconnects after a loss."""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import time
from contextlib import suppress
from typing import NamedTuple

from collectors.fleet import payload
from collectors.fleet.clean import clean_bytes, last_line
from collectors.fleet.decode import Decoder
from collectors.fleet.share import Share
from collectors.fleet.sink import Link, LinkChange, Sink
from collectors.fleet.transport import Declined, Process, Refused, Transport, TransportError, ending
from collectors.node import wire
from collectors.samples.stream import Hello, Settings, Tick

AGENT = "collectors.node.agent"
TURN = 1.0
"""Seconds between two looks at the link."""
BEAT = 3
"""Turns between two heartbeats."""
FIRST_WORD = 20.0
"""Seconds that the agent may take to send its first sample."""
STEADY = 20.0
"""Seconds of life after which the waits between attempts at a lost node begin again with the shortest."""
FIRST, MOST = 0.5, 8.0
"""Seconds between attempts at a node that does not answer, first and most: it is live within 15 s of its return."""
REFUSED, REFUSED_MOST = 60.0, 600.0
"""Seconds between attempts when the user must act first: rare enough that no server bans this machine."""

FLOODS = "it sends more than this machine has time for: the rest waits there"
_ERROR_BYTES = 4096
"""Bytes of standard error that are kept."""

# "shell" shows that a shell runs commands there; a login script may print other lines.
_FIND_PYTHON = r"""
echo shell
for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8; do
  path=$(command -v "$name" 2>/dev/null) || continue
  "$path" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 8))' >/dev/null 2>&1 </dev/null || continue
  echo "python $path"
  break
done
"""


class NodeLink:
    """Keeps one node connected and delivers its samples."""

    def __init__(self, transport: Transport, sink: Sink, settings: Settings, python: str | None = None) -> None:
        """``python`` is the interpreter to use; None to search the node's PATH."""
        self._transport = transport
        self._sink = sink
        self.settings = settings
        self._search = python is None
        transport.python = python or "python3"
        self._link: Link = "connecting"
        self._why = ""
        self._process: Process | None = None
        """The agent on the node, while it runs."""
        self._errors = b""
        """The end of its standard error."""
        self._first_word: asyncio.Timeout | None = None
        """Its deadline for the first sample."""
        self._decoder = Decoder()
        self._share = Share()
        self._paused = False
        self._heard_at: float | None = None
        """When the agent's ``Hello`` arrived (monotonic clock); None before."""
        self._ticked_at = 0.0
        self._again = asyncio.Event()
        self._failures = self._refusals = 0
        """Since the last steady connection."""
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def transport(self) -> Transport:
        """The open transport. Raises :class:`TransportError` if the node is not connected."""
        if not self._transport.connected:
            raise TransportError(f"{self._transport.name} is {self._link}" + (f": {self._why}" if self._why else ""))
        return self._transport

    # --- what the fleet calls -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start to connect."""
        self._change("connecting")
        self._tasks = [asyncio.ensure_future(work()) for work in (self._run, self._watch)]
        for task in self._tasks:
            task.add_done_callback(self._fell_over)

    async def close(self) -> None:
        """Close the link; the agent and all commands on the node end."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._transport.close()

    def retry(self) -> None:
        """Make the next attempt now."""
        self._again.set()

    def configure(self, settings: Settings) -> None:
        """Send new settings, now or once the node is connected."""
        self.settings = settings
        self._send(wire.encode(settings))

    # --- connecting and watching ----------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            wait: float | None
            refused = False
            try:
                await self._transport.connect()
                why, wait = await self._serve(), self._pause(refused=False)
            except Declined as error:
                why, wait, refused = str(error), None, True
            except TransportError as error:
                refused = isinstance(error, Refused)
                why, wait = str(error), self._pause(refused=refused)
            self._heard_at = None
            why = why.removeprefix(f"{self._transport.name}: ")
            self._change("lost", why, refused=refused)
            self._again.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._again.wait(), wait)

    def _pause(self, *, refused: bool) -> float:
        """Seconds until the next attempt: doubling, with jitter so that nodes lost together do not return together."""
        if self._heard_at is not None and time.monotonic() - self._heard_at > STEADY:
            self._failures = self._refusals = 0
        if refused:
            self._refusals += 1
            seconds = min(REFUSED_MOST, REFUSED * 2.0 ** (self._refusals - 1))
        else:
            self._failures += 1
            seconds = min(MOST, FIRST * 2.0 ** (self._failures - 1))
        return seconds * random.uniform(0.6, 1.0)  # noqa: S311 (no secret)

    async def _watch(self) -> None:
        """Check the link each second and send a heartbeat each third second; nodes are spread over the second."""
        await asyncio.sleep(TURN * self.settings.phase)
        for turn in itertools.count():
            self._look(time.monotonic())
            if turn % BEAT == 0:
                self._send(b"\n")
            await asyncio.sleep(TURN)

    def _look(self, now: float) -> None:
        """Report bad lines, renew the CPU budget, detect a flood or silence."""
        for bad in self._decoder.bad_lines():
            self._sink.bad_line(self._transport.name, *bad)
        self._share.renew()
        if self._paused and self._process is not None:
            self._paused = False
            self._process.resume()
        if self._link == "live" and self._share.exceeded:
            self._change("limited", FLOODS)
        elif self._link == "limited" and not self._share.exceeded:
            self._change("live")
        stale_after = max(3.5, 3.0 * self.settings.interval + 0.5)
        if self._heard_at is not None and (silent := now - self._ticked_at) > stale_after:
            if self._link in ("live", "limited"):
                self._change("stale", "no sample comes any more")
            self._transport.not_responding(silent - self.settings.interval)

    def _change(self, link: Link, why: str = "", *, refused: bool = False) -> None:
        """Set the state and report it to the sink."""
        self._link, self._why = link, why
        self._sink.link(LinkChange(self._transport.name, link, why, time.time(), refused))

    def _fell_over(self, task: asyncio.Task[None]) -> None:
        """Report a bug of hangtop that ended the link, as the node's state and to the loop's exception handler."""
        if task.cancelled() or (error := task.exception()) is None:
            return
        self._change("lost", f"a fault in hangtop: {error!r}")
        task.get_loop().call_exception_handler({"message": f"link of {self._transport.name}", "exception": error})

    # --- the node side --------------------------------------------------------------------------------------------

    async def _serve(self) -> str:
        """Run the agent until it ends; returns why it ended. Raises :class:`TransportError`."""
        while True:
            status = await self._stream()
            if not self._transport.connected:
                return self._transport.why
            if self._heard_at is not None:
                return f"hangtop's part there {self._ended(status)}"
            python = self._transport.python
            found = await find_python(self._transport) if self._search else python
            if found == python:
                return f"{python} could not start there (status {status}){self._last_error()}"
            self._transport.python = found

    async def _stream(self) -> int:
        """Run the agent to its end and deliver its samples; returns its exit status."""
        self._decoder, self._paused, self._errors = Decoder(), False, b""
        python = self._transport.python
        command = payload.command(python, nice=False)
        process = await self._transport.start(command, on_stdout=self._take, on_stderr=self._keep_error)
        self._process = process
        try:
            process.write(payload.pack(AGENT, {"settings": list(self.settings)}))
            async with asyncio.timeout(FIRST_WORD) as self._first_word:
                return await process.wait()
        except TimeoutError:
            raise TransportError(f"{python} said nothing there for {FIRST_WORD:.0f} s{self._last_error()}") from None
        finally:
            self._process = self._first_word = None
            process.kill()

    def _send(self, line: bytes) -> None:
        if self._process is not None:
            self._process.write(line)

    def _take(self, data: bytes) -> None:
        """Decode and deliver output; stop reading once the node's CPU budget for this second is used up."""
        began = time.thread_time()
        samples: list[NamedTuple] = []
        for sample in self._decoder.feed(data):
            if isinstance(sample, Hello):
                if self._heard_at is not None:
                    continue  # a second Hello would reset what the session knows of the node
                self._greeted(sample)
            elif type(sample) is Tick:
                self._ticked_at = time.monotonic()
                if self._link == "stale":
                    self._change("live")
            samples.append(sample)
        if samples:
            self._sink.samples(self._transport.name, samples)
        self._share.spend(time.thread_time() - began)
        if self._share.used_up and self._process is not None and not self._paused:
            self._paused = True
            self._process.pause()

    def _greeted(self, hello: Hello) -> None:
        """The agent runs: send it the modules that it requests."""
        self._heard_at = self._ticked_at = time.monotonic()
        if self._first_word is not None:
            self._first_word.reschedule(None)
        self._change("live")
        for line in filter(None, map(payload.lent, hello.wants)):
            self._send(line)

    def _keep_error(self, data: bytes) -> None:
        self._errors = (self._errors + data)[-_ERROR_BYTES:]

    def _ended(self, status: int) -> str:
        """How the agent ended, as a predicate: ``ended (status 1): …``, ``ended (killed by SIGKILL)``."""
        if status == -signal.SIGALRM:  # its watchdog
            return "heard nothing from here for too long and ended itself"
        return f"ended ({ending(status)}){self._last_error()}"

    def _last_error(self) -> str:
        """The last line of its standard error, after a colon; empty without one."""
        line = last_line(self._errors)
        return f": {line}" if line else ""


async def find_python(transport: Transport) -> str:
    """Path of the first Python on the node's PATH that is new enough: ``python3``, else one such as ``python3.12``.

    Raises :class:`Refused` if there is none, and :class:`TransportError` if no shell runs commands.
    """
    done = await transport.run(["sh", "-c", _FIND_PYTHON], timeout=20.0, limit=1 << 16)
    lines = [line.strip() for line in clean_bytes(done.stdout).splitlines()]
    if "shell" not in lines:
        noise = last_line(done.stdout + b"\n" + done.stderr)
        raise TransportError(f"no shell runs commands there: {noise or 'it prints nothing'}")
    for line in lines:
        word, _, path = line.partition(" ")
        if word == "python" and path.startswith("/"):
            return path
    raise Refused("there is no Python 3.8 or newer on the PATH there: name one by --python")
