"""A command on a node, run through a local program that gives a shell there."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress

from collectors.fleet.clean import clean_bytes
from collectors.fleet.local import LocalProcess
from collectors.fleet.transport import BROKEN, Output
from collectors.fleet.via.framed import Framed

GRACE = 1.5
"""Seconds for the local program to end once its input has ended, and again after SIGTERM."""
LAST_WORDS = 0.5
"""Seconds to wait for standard error after the end."""
_ERRORS = 4096
_LONGEST = 300


class PipedProcess(LocalProcess):
    """A process of the local program and the framed command at its far end."""

    def __init__(
        self, command: Sequence[str], on_stdout: Output, on_stderr: Output, on_end: Callable[[PipedProcess], None]
    ) -> None:
        super().__init__(self._hear, self._complain)
        self.framed = Framed(command, lambda data: None if self._closing else on_stdout(data))
        self._on_stderr = on_stderr
        self._on_end = on_end
        self.errors = bytearray()
        """The end of standard error."""
        self._local_status: int | None = None
        self._killed = self._closing = False
        self.news = asyncio.Event()
        """Set when the shell runs the command, and at the end."""

    @property
    def broke(self) -> bool:
        """True when the local program ended by itself before the command did."""
        return self.framed.status is None and not self._killed and self._transport is not None

    @property
    def ending(self) -> str:
        """The exit status of the local program, for people; empty while it runs."""
        status = self._local_status
        if status is not None and -status in signal.Signals.__members__.values():
            return f" (killed by {signal.Signals(-status).name})"
        return "" if status is None else f" (status {status})"

    @property
    def last_line(self) -> str:
        """The last message of the local program, or of the login that it leads to."""
        for said in (bytes(self.errors), self.framed.noise):
            if lines := clean_bytes(said).strip().splitlines():
                return lines[-1].strip()[:_LONGEST].rstrip(": ")
        return ""

    # --- as a Process ---------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """Close the channel: its input ends, and the local program is killed if it does not end."""
        if not self._ended.done():
            self._killed = True
            self._close()

    def break_off(self) -> None:
        """Treat the channel as broken."""
        self.kill()
        self._settle()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the local program's process group."""
        if self._transport is not None and self._local_status is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._transport.get_pid(), number)

    # --- output ---------------------------------------------------------------------------------------------------

    def _hear(self, data: bytes) -> None:
        if self._ended.done():
            return
        before = self.framed.state
        self.framed.feed(data)
        if self.framed.state != before:
            self.news.set()
            if self.framed.state == "over":
                asyncio.get_running_loop().call_later(LAST_WORDS, self._settle)

    def _complain(self, data: bytes) -> None:
        if self._ended.done():
            return
        self.errors += data
        del self.errors[:-_ERRORS]
        if self.framed.state != "before" and not self._killed:
            self._on_stderr(data)

    # --- as asyncio's protocol ------------------------------------------------------------------------------------

    def process_exited(self) -> None:
        """The local program ended; a child of it may still hold its streams open."""
        assert self._transport is not None
        self._local_status = self._transport.get_returncode()
        asyncio.get_running_loop().call_later(LAST_WORDS, self._let_go)

    def connection_lost(self, _exc: Exception | None) -> None:
        """The program ended and all of its output was read."""
        self._settle()
        if self._transport is not None:
            self._transport.close()

    def _close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self.resume()  # a program blocked in a write would not see its input end
        self.write_eof()
        if self._local_status is None:
            loop = asyncio.get_running_loop()
            loop.call_later(GRACE, self.signal, signal.SIGTERM)
            loop.call_later(2 * GRACE, self.signal, signal.SIGKILL)

    def _settle(self) -> None:
        """Set the status: that of the end mark, else :data:`BROKEN`."""
        if not self._ended.done():
            self._close()
            self._ended.set_result(BROKEN if self.framed.status is None else self.framed.status)
            self.news.set()
            self._on_end(self)

    def _let_go(self) -> None:
        """Close its streams, which a child may still hold open."""
        self._settle()
        if self._transport is not None:
            for descriptor in (0, 1, 2):
                if (pipe := self._transport.get_pipe_transport(descriptor)) is not None:
                    pipe.close()
